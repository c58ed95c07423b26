#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/scalar.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

// Elements by lists of indices. Everywhere: x has any dtype; indices are i64 or i32 in [0, n), n being x's size along
// `axis`, which may be negative; a tensor of rank 0 counts as one of a single element. Gradients flow to x and to the
// source, to any order. Results have the same bits in every run and for any number of threads: no element has two
// writers. Throws DTypeError for indices of another dtype and for a source of another dtype than x's, ShapeError for
// shapes and axes that do not fit, IndexError for an index outside of [0, n), which on CUDA is thrown by the next call
// that waits for the device (core/device/index_error.h); until then it takes zeros and writes nothing.
//
// The functions whose names end in _ change x itself, with the rules of all in-place changes.

/// y[.., p, ..] = x[.., indices[p], ..] along `axis`: whole slices of x. `indices` has rank 1, or 0 for one slice.
CT_API Tensor index_select(const Tensor& x, Integer axis, const Tensor& indices);

/// Along axis 0 of three: y[i, j, k] = x[index[i, j, k], j, k]. `index`, whose shape is the result's, has x's rank and
/// no size above x's but along `axis`.
CT_API Tensor gather(const Tensor& x, Integer axis, const Tensor& index);

/// gather() where x and `indices` broadcast along all axes but `axis`; without an axis of x.flatten().
CT_API Tensor take_along_dim(const Tensor& x, const Tensor& indices, Integer axis);
CT_API Tensor take_along_dim(const Tensor& x, const Tensor& indices);

/// x with alpha source[.., p, ..] added to y[.., index[p], ..], for all p. `source` has x's shape but for `axis`, where it
/// has the size of `index`. x of any dtype but bool. 16-bit types are summed in f32 and rounded once.
CT_API Tensor index_add(const Tensor& x, Integer axis, const Tensor& index, const Tensor& source,
                        const Scalar& alpha = 1);
CT_API Tensor& index_add_(Tensor& x, Integer axis, const Tensor& index, const Tensor& source,
                          const Scalar& alpha = 1);

/// x with y[.., index[p], ..] = source[.., p, ..]. Where several p have one index, the last is copied.
CT_API Tensor index_copy(const Tensor& x, Integer axis, const Tensor& index, const Tensor& source);
CT_API Tensor& index_copy_(Tensor& x, Integer axis, const Tensor& index, const Tensor& source);

/// x with, along axis 0 of three, source[i, j, k] added to y[index[i, j, k], j, k]. `index` has x's rank and no size above
/// source's, nor above x's but along `axis`. x of any dtype but bool; sums as in index_add().
CT_API Tensor scatter_add(const Tensor& x, Integer axis, const Tensor& index, const Tensor& source);
CT_API Tensor& scatter_add_(Tensor& x, Integer axis, const Tensor& index, const Tensor& source);

/// The same with y[index[i, j, k], j, k] = source[i, j, k], or `value`. Where several elements of `index` name one place,
/// the last in row-major order is written, and gets the gradient.
CT_API Tensor scatter(const Tensor& x, Integer axis, const Tensor& index, const Tensor& source);
CT_API Tensor scatter(const Tensor& x, Integer axis, const Tensor& index, const Scalar& value);
CT_API Tensor& scatter_(Tensor& x, Integer axis, const Tensor& index, const Tensor& source);
CT_API Tensor& scatter_(Tensor& x, Integer axis, const Tensor& index, const Scalar& value);

}  // namespace ct
