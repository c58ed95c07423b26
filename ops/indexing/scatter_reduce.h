#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

// Elements that meet at one place, made into one: pooling over the nodes of graphs, a softmax over segments, histograms. What
// indexing.h says of indices, errors, gradients and bits holds here, too. x of any dtype but bool.
//
// `reduce` is a ScatterReduce:
//   sum, prod   Integers wrap.
//   mean        The sum by the number of elements; of integers rounded down.
//   amax, amin  A NaN wins. The gradient is shared evenly by all that equal the result.
// The elements of a place are x's own and what `source` has for it, in the order of `source`; without `include_self` x's own
// is none of them, but remains where `source` has nothing. 16-bit types are computed in f32 and rounded once.

/// x with, along axis 0 of three, y[index[i, j, k], j, k] made of it and of source[i, j, k] by `reduce`: their sum, product
/// (prod), mean, largest (amax) or smallest (amin). `index` has x's rank and no size above source's, nor above x's but
/// along `axis`.
CT_API Tensor scatter_reduce(const Tensor& x, Integer axis, const Tensor& index, const Tensor& source,
                             ScatterReduce reduce, Flag include_self = true);
CT_API Tensor& scatter_reduce_(Tensor& x, Integer axis, const Tensor& index, const Tensor& source,
                               ScatterReduce reduce, Flag include_self = true);

/// x with y[.., index[p], ..] made of it and of source[.., p, ..] by `reduce`, as scatter_reduce() does: whole slices. `index`
/// has rank 1, or 0 for one slice; `source` has x's shape but for `axis`, where it has the size of `index`.
CT_API Tensor index_reduce(const Tensor& x, Integer axis, const Tensor& index, const Tensor& source,
                           ScatterReduce reduce, Flag include_self = true);
CT_API Tensor& index_reduce_(Tensor& x, Integer axis, const Tensor& index, const Tensor& source,
                             ScatterReduce reduce, Flag include_self = true);

}  // namespace ct
