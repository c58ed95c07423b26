#pragma once

#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/scalar.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

// Elements by masks. A mask is of bool and broadcasts with x, whose dtype is any. Throws DTypeError for a mask that is not
// bool, ShapeError for shapes that do not broadcast. Results have the same bits in every run and for any number of
// threads. How many elements a mask chooses is known to the device alone: what depends on it, all but masked_fill(),
// waits for it.

/// The indices of the elements that are not 0 (NaN is not), row by row in row-major order: i64 [number, rank].
CT_API Tensor nonzero(const Tensor& x);
/// The same as one tensor for each axis (of a scalar one): what index() takes.
CT_API std::vector<Tensor> where(const Tensor& condition);

/// The elements of x where the mask is true, in row-major order: [number]. Gradients, of any order, go back there.
CT_API Tensor masked_select(const Tensor& x, const Tensor& mask);

/// x with `value` where the mask is true; of x's dtype, which must hold it (ValueError, DTypeError). The gradient is 0
/// there. A tensor as value has one element and gets the sum of the others' gradients. x does not change shape in place.
CT_API Tensor masked_fill(const Tensor& x, const Tensor& mask, const Scalar& value);
CT_API Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);
CT_API Tensor& masked_fill_(Tensor& x, const Tensor& mask, const Scalar& value);
CT_API Tensor& masked_fill_(Tensor& x, const Tensor& mask, const Tensor& value);

/// x with the first elements of `source`, in row-major order, where the mask is true. Throws ShapeError for a source with
/// fewer elements than the mask chooses, DTypeError for one of another dtype.
CT_API Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);
CT_API Tensor& masked_scatter_(Tensor& x, const Tensor& mask, const Tensor& source);

}  // namespace ct
