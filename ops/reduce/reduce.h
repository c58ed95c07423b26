#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

// Reductions. Common to all of them:
//
//  * `axes` are the axes that disappear; none named means all of them. Negative axes count from the end.
//    Throws ShapeError for an axis outside of the rank, or named twice.
//  * `keepdim` leaves the reduced axes in the result with size 1.
//  * Results have x's dtype unless said otherwise. 16-bit types and f32 are reduced in f32 or better, f64 in
//    f64, integers in i64 with wrap-around.
//  * A NaN among the elements gives NaN, or true for any() and all().
//  * Results do not depend on the number of threads, and are the same in every run.

namespace ct {

/// Result of an extremum along an axis: the values and, as i64, where along the axis they were found.
struct ValuesIndices {
  Tensor values;
  Tensor indices;
};

/// sum_i x_i. Integers and bool are summed as i64. With `dtype`, x is converted first. Without elements: 0.
/// Gradient: the cotangent, expanded without a copy.
CT_API Tensor sum(const Tensor& x, const Dims& axes = {}, Flag keepdim = false,
                  std::optional<DType> dtype = std::nullopt);

/// sum_i x_i / n. Only for floating dtypes; with `dtype`, x is converted first. Without elements: NaN.
CT_API Tensor mean(const Tensor& x, const Dims& axes = {}, Flag keepdim = false,
                   std::optional<DType> dtype = std::nullopt);

/// The product. Integers and bool multiply as i64. Without elements: 1.
/// Gradient of a factor: the product of the others, also where some of them are 0.
CT_API Tensor prod(const Tensor& x, const Dims& axes = {}, Flag keepdim = false,
                   std::optional<DType> dtype = std::nullopt);

/// The largest, the smallest element. The gradient is shared evenly between equal ones. Throws ShapeError for
/// a reduction over no elements.
CT_API Tensor amax(const Tensor& x, const Dims& axes = {}, Flag keepdim = false);
CT_API Tensor amin(const Tensor& x, const Dims& axes = {}, Flag keepdim = false);

/// Both: of the axes, or of all.
struct MinMax {
  Tensor min, max;
};
CT_API MinMax aminmax(const Tensor& x, const Dims& axes = {}, Flag keepdim = false);

/// The largest, the smallest over all axes.
CT_API Tensor max(const Tensor& x);
CT_API Tensor min(const Tensor& x);

/// The largest, the smallest elements along one axis and their positions, of equal ones the first. The
/// gradient goes to that one alone. A NaN counts as larger, or smaller, than everything. Throws ShapeError if
/// the axis is empty.
CT_API ValuesIndices max(const Tensor& x, Integer axis, Flag keepdim = false);
CT_API ValuesIndices min(const Tensor& x, Integer axis, Flag keepdim = false);

/// maximum(), minimum(): the larger, the smaller of two tensors' elements.
CT_API Tensor max(const Tensor& x, const Tensor& other);
CT_API Tensor min(const Tensor& x, const Tensor& other);

/// The position (i64) of the first largest, smallest element along an axis; without axis, in the flattened
/// tensor. NaN counts as in max(). Throws ShapeError for no elements.
CT_API Tensor argmax(const Tensor& x);
CT_API Tensor argmax(const Tensor& x, Integer axis, Flag keepdim = false);
CT_API Tensor argmin(const Tensor& x);
CT_API Tensor argmin(const Tensor& x, Integer axis, Flag keepdim = false);

/// Whether some, whether all elements differ from 0: bool, from any dtype. Without elements: false, true.
CT_API Tensor any(const Tensor& x, const Dims& axes = {}, Flag keepdim = false);
CT_API Tensor all(const Tensor& x, const Dims& axes = {}, Flag keepdim = false);

/// sum_i (x_i - mean)^2 / max(0, n - correction). With correction 1 the unbiased estimate, with 0 the
/// variance of the elements themselves. NaN for n <= correction (unless the elements differ: infinity).
CT_API Tensor var(const Tensor& x, const Dims& axes = {}, Real correction = 1, Flag keepdim = false);

/// sqrt(var(x)). The gradient is 0 where the result is 0.
CT_API Tensor stddev(const Tensor& x, const Dims& axes = {}, Real correction = 1, Flag keepdim = false);

/// The p-norm (sum_i |x_i|^p)^(1/p). p = inf and -inf: the largest, the smallest |x|; p = 0: the number of
/// elements other than 0. The gradient is 0 where the norm is 0. Throws ShapeError for p = inf of no
/// elements, ValueError for a p that is NaN.
CT_API Tensor norm(const Tensor& x, Real p = 2, const Dims& axes = {}, Flag keepdim = false);

/// log sum_i exp(x_i), without overflow. Without elements, or with -inf alone: -inf.
CT_API Tensor logsumexp(const Tensor& x, const Dims& axes = {}, Flag keepdim = false);

}  // namespace ct
