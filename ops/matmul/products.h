#pragma once

#include <string_view>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/scalar.h>
#include <cotangent/core/tensor/tensor.h>

// Products that are made of matmul(), mul() and sum(), and get their gradients from them.

namespace ct {

/// Einstein's summation: `equation` names the axes of each operand, and those of the result, with letters.
///
///     einsum("ij,jk->ik", {a, b})          a product of matrices
///     einsum("bqhd,bkhd->bhqk", {q, k})    the scores of attention
///     einsum("ii->i", {a})                 a diagonal;  "ii" its sum
///     einsum("...i,...i->...", {a, b})     a dot product for each of whatever axes are in front
///
/// Element by element: for all values of all letters, the product of the operands' elements is added to the element of
/// the result. A letter stands for axes of one size, or of that and of 1, which is repeated. "..." stands for the axes
/// that have no letter; they broadcast. Without "->" the result has those, then the letters that occur once, in
/// alphabetical order. Operands are multiplied from left to right, each pair as one matmul() where they share a letter
/// that ends there. One dtype for all; integers wrap around.
///
/// Throws ShapeError for an equation that cannot be read or does not fit the operands; DTypeError, DeviceError.
CT_API Tensor einsum(std::string_view equation, TensorList operands);

/// The sums of products over the last `axes` axes of a and the first of b, which must be of the same sizes; the result
/// has the other axes of a, then those of b. Throws ShapeError.
CT_API Tensor tensordot(const Tensor& a, const Tensor& b, Integer axes = 2);
/// The same over axes a_axes[i] of a and b_axes[i] of b, for each i.
CT_API Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& a_axes, const Dims& b_axes);

/// y[i, j] = a[i] b[j], for vectors a and b. Throws ShapeError for other ranks.
CT_API Tensor outer(const Tensor& a, const Tensor& b);

struct AddmmOptions {
  Scalar beta = 1;
  Scalar alpha = 1;
};
/// beta x + alpha a b, with matrices a [m, k] and b [k, n], and x that broadcasts to [m, n]. With beta = 0, x is not
/// read: a NaN in it does not matter. Throws ShapeError, DTypeError, DeviceError.
CT_API Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, const AddmmOptions& options = {});
/// The same for stacks a [s, m, k] and b [s, k, n], and x that broadcasts to [s, m, n].
CT_API Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, const AddmmOptions& options = {});

/// y[.., o] = sum_ij x1[.., i] weight[o, i, j] x2[.., j] + bias[o]. x1 and x2 have the same axes in front; weight is
/// [outputs, features of x1, features of x2], bias [outputs] or undefined. Throws ShapeError, DTypeError, DeviceError.
CT_API Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias = {});

/// The distances of all rows of x [.., n, d] from all rows of y [.., m, d]: the p-norms of their differences, [.., n, m].
/// Axes in front broadcast. The gradient of a distance of 0 is 0. The differences are kept: n m d numbers. Throws
/// ShapeError for other shapes, ValueError for p < 0, DTypeError, DeviceError.
CT_API Tensor cdist(const Tensor& x, const Tensor& y, Real p = 2);

}  // namespace ct
