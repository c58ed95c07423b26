#pragma once

#include <optional>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/reduce/reduce.h>

namespace ct {

// Order along an axis, which may be negative (ShapeError for one outside of the rank); a scalar counts as one element. -0
// and 0 are equal, a NaN is larger than every number. Equal elements stay in the order they have, on every device. x is of
// any dtype unless said otherwise. Gradients, of any order, go to the elements that the values are.

/// The elements along `axis`, the smallest first, and where along the axis they were (i64). Sorting is always `stable`.
CT_API ValuesIndices sort(const Tensor& x, Integer axis = -1, Flag descending = false, Flag stable = true);
/// The positions alone.
CT_API Tensor argsort(const Tensor& x, Integer axis = -1, Flag descending = false, Flag stable = true);

/// The k-th smallest element along `axis`, k from 1 on, and where it is: of equal ones as sort() has them. Throws ShapeError
/// for a k outside of [1, x.size(axis)].
CT_API ValuesIndices kthvalue(const Tensor& x, Integer k, Integer axis = -1, Flag keepdim = false);

/// The median, of an even number of elements the lower one of the middle, and where it is. A NaN among the elements is the
/// result. Throws ShapeError for an axis of no elements.
CT_API ValuesIndices median(const Tensor& x, Integer axis, Flag keepdim = false);
/// The median of all elements. Without elements it is NaN, and ShapeError for integers.
CT_API Tensor median(const Tensor& x);

/// The different elements of x.flatten(), the smallest first (also without `sorted`); of those of `inverse`, which has x's
/// shape, each is the position of an element in `values`, and `counts` says how often each occurs. Results that are not
/// asked for are undefined tensors. NaN differs from itself. Without gradients. Waits for the device, as the number of
/// values depends on x.
///
/// With an `axis` the different slices of x across it, in the order of their first elements that differ: `values` has x's
/// shape but along the axis, `inverse` is a list of x.size(axis).
struct Unique {
  Tensor values, inverse, counts;
};
CT_API Unique unique(const Tensor& x, Flag sorted = true, Flag return_inverse = false,
                     Flag return_counts = false, std::optional<std::int64_t> axis = std::nullopt);
/// The same of runs of equal elements, or slices, that follow one another: nothing is sorted.
CT_API Unique unique_consecutive(const Tensor& x, Flag return_inverse = false, Flag return_counts = false,
                                 std::optional<std::int64_t> axis = std::nullopt);

/// Counts of each of 0, 1, ... in x, up to its maximum or at least to `minlength` - 1: i64. With `weights`, of x's
/// shape, the sums of the weights of each: of their dtype, f64 for integers; gradients go back to them. x is of rank 1, of
/// integers >= 0 (DTypeError, ShapeError, ValueError). Waits for the device.
CT_API Tensor bincount(const Tensor& x, const std::optional<Tensor>& weights = std::nullopt,
                       Integer minlength = 0);

}  // namespace ct
