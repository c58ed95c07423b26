#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/reduce/reduce.h>

namespace ct {

/// The k largest elements along `axis`, the largest first, and where along the axis they are (i64); without `largest` the
/// k smallest, the smallest first. Equal elements come in their order; a NaN counts as larger than everything. The results
/// have x's shape with k in place of the axis. x may be of any dtype but bool. Without `sorted` any order would do: it is
/// the same one.
///
/// Gradient: that of a value goes to the element it is.
/// Throws ShapeError for a scalar, an axis outside of the rank or a k outside of [0, x.size(axis)].
CT_API ValuesIndices topk(const Tensor& x, Integer k, Integer axis = -1, Flag largest = true,
                          Flag sorted = true);

}  // namespace ct
