#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// The matrix product of `a` and `b`, which also is Tensor::matmul:
///
///     [k]         x [k]         -> []             the dot product
///     [m, k]      x [k, n]      -> [m, n]         y[i, j] = sum_p a[i, p] b[p, j]
///     [k]         x [..., k, n] -> [..., n]       a is a row, which then disappears
///     [..., m, k] x [k]         -> [..., m]       b is a column, which then disappears
///     [..., m, k] x [..., k, n] -> [..., m, n]    a product per matrix; the axes in front broadcast
///
/// Transposed operands, and others with one axis of stride 1, are read where they are. k may be 0, and then
/// the result is zero. Floating dtypes accumulate as accumulate_type() says; integers wrap around.
///
/// Throws ShapeError for scalars, for inner dimensions that differ and for leading axes that do not
/// broadcast; DTypeError for bool or for different dtypes; DeviceError for different devices.
CT_API Tensor matmul(const Tensor& a, const Tensor& b);

/// matmul() of two matrices, and of nothing else: [m, k] x [k, n]. Throws ShapeError for other ranks.
CT_API Tensor mm(const Tensor& a, const Tensor& b);
/// matmul() of two stacks of matrices of the same length: [s, m, k] x [s, k, n]. Throws ShapeError otherwise.
CT_API Tensor bmm(const Tensor& a, const Tensor& b);
/// The sum of products of two vectors of the same length. Throws ShapeError for other ranks.
CT_API Tensor dot(const Tensor& a, const Tensor& b);

}  // namespace ct
