#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// Counts for each v of `values` the elements of its ascending list in `sorted` that are smaller than v, with `right` not
/// larger: where v would be inserted before, or behind, its equals. i64 of `values`' shape. `sorted` is one list [n], or
/// [.., n] with a list for each row of `values` [.., m], whose other axes are the same. NaN is larger than every number.
/// Numeric dtypes, which are promoted. Whether `sorted` ascends is not looked at.
///
/// Throws ShapeError for shapes that do not fit. No gradient.
CT_API Tensor searchsorted(const Tensor& sorted, const Tensor& values, Flag right = false);

/// The same for x and one list of boundaries: the number of the bucket that each x is in.
CT_API Tensor bucketize(const Tensor& x, const Tensor& boundaries, Flag right = false);

}  // namespace ct
