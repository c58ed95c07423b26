#pragma once

#include <cotangent/core/export.h>
#include <cotangent/core/scalar.h>
#include <cotangent/core/tensor.h>

// Functions of two tensors, element by element, or of a tensor and a number on either side.
//
// Shapes broadcast by NumPy's rule (aligned at the right, sizes equal or 1; else ShapeError). Tensors of
// different dtypes are converted to their promoted dtype, where a tensor of rank 0, like a plain number, only
// counts if it is of a higher category (bool < integers < floats): f32 tensor + 0.5 is f32, i64 tensor + 0.5
// is f32, f16 tensor + f32 scalar tensor is f16. Results are contiguous. The gradient of a broadcast operand
// is summed over the axes that it was repeated along. Arithmetic on bool alone throws DTypeError. Integers wrap
// around; but arithmetic with a number that the result's integer dtype can't hold (u8 tensor + 300, i32 tensor *
// 3000000000, also in place) throws ValueError. Comparisons with such a number are answered.

namespace ct {

// ---- Arithmetic: numbers ------------------------------------------------------------------------------

/// a + alpha * b. For integers alpha must be an integer (DTypeError).
CT_API Tensor add(const Tensor& a, const Tensor& b, const Scalar& alpha = 1);
CT_API Tensor add(const Tensor& a, const Scalar& b, const Scalar& alpha = 1);
CT_API Tensor add(const Scalar& a, const Tensor& b);
/// a - alpha * b.
CT_API Tensor sub(const Tensor& a, const Tensor& b, const Scalar& alpha = 1);
CT_API Tensor sub(const Tensor& a, const Scalar& b, const Scalar& alpha = 1);
CT_API Tensor sub(const Scalar& a, const Tensor& b);
/// a * b.
CT_API Tensor mul(const Tensor& a, const Tensor& b);
CT_API Tensor mul(const Tensor& a, const Scalar& b);
CT_API Tensor mul(const Scalar& a, const Tensor& b);
/// a / b, the true quotient: integers give f32.
CT_API Tensor div(const Tensor& a, const Tensor& b);
CT_API Tensor div(const Tensor& a, const Scalar& b);
CT_API Tensor div(const Scalar& a, const Tensor& b);
/// a^b. A negative base has a real power only for whole exponents (else NaN); 0^0 is 1. The gradient of a is
/// 0 where b is 0, and that of b is 0 where a is 0 and b >= 0. Integer tensors take integer powers, which
/// wrap around and are 0 for negative exponents of bases other than 1 and -1; a negative number as exponent
/// of an integer tensor throws ValueError. u8 throws DTypeError.
CT_API Tensor pow(const Tensor& a, const Tensor& b);
CT_API Tensor pow(const Tensor& a, const Scalar& b);
CT_API Tensor pow(const Scalar& a, const Tensor& b);
/// The larger of the two; NaN if either is. At a tie each gets half of the gradient.
CT_API Tensor maximum(const Tensor& a, const Tensor& b);
CT_API Tensor maximum(const Tensor& a, const Scalar& b);
CT_API Tensor maximum(const Scalar& a, const Tensor& b);
/// The smaller of the two; NaN if either is. At a tie each gets half of the gradient.
CT_API Tensor minimum(const Tensor& a, const Tensor& b);
CT_API Tensor minimum(const Tensor& a, const Scalar& b);
CT_API Tensor minimum(const Scalar& a, const Tensor& b);

// ---- Comparisons: bool results, no gradient, any dtype -------------------------------------------------
// A number that is compared with a 16-bit tensor is rounded to its dtype first.

CT_API Tensor eq(const Tensor& a, const Tensor& b);
CT_API Tensor eq(const Tensor& a, const Scalar& b);
CT_API Tensor ne(const Tensor& a, const Tensor& b);
CT_API Tensor ne(const Tensor& a, const Scalar& b);
CT_API Tensor lt(const Tensor& a, const Tensor& b);
CT_API Tensor lt(const Tensor& a, const Scalar& b);
CT_API Tensor le(const Tensor& a, const Tensor& b);
CT_API Tensor le(const Tensor& a, const Scalar& b);
CT_API Tensor gt(const Tensor& a, const Tensor& b);
CT_API Tensor gt(const Tensor& a, const Scalar& b);
CT_API Tensor ge(const Tensor& a, const Tensor& b);
CT_API Tensor ge(const Tensor& a, const Scalar& b);

// ---- Logic: anything but 0 is true; bool results, no gradient, any dtype ---------------------------------

CT_API Tensor logical_and(const Tensor& a, const Tensor& b);
CT_API Tensor logical_or(const Tensor& a, const Tensor& b);
CT_API Tensor logical_xor(const Tensor& a, const Tensor& b);
CT_API Tensor logical_not(const Tensor& x);
inline Tensor operator!(const Tensor& x) { return logical_not(x); }

// ---- Operators ------------------------------------------------------------------------------------------
// There is no == between tensors: eq() compares values, Tensor::is_same() asks whether two handles share one
// tensor, and neither may be mistaken for the other.

#define CT_OPERATOR(symbol, function)                                                        \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { return function(a, b); } \
  inline Tensor operator symbol(const Tensor& a, const Scalar& b) { return function(a, b); } \
  inline Tensor operator symbol(const Scalar& a, const Tensor& b) { return function(a, b); }
CT_OPERATOR(+, add)
CT_OPERATOR(-, sub)
CT_OPERATOR(*, mul)
CT_OPERATOR(/, div)
#undef CT_OPERATOR

namespace detail {
/// `a`, the left side of the comparison `op`; throws DTypeError for a mask, as the answer of another one is.
CT_API const Tensor& compared(const char* op, const Tensor& a);
}  // namespace detail

// a < b < c would compare the answer of a < b with c: these throw DTypeError for bool on the left. lt(), le(),
// gt() and ge() order masks as well.
#define CT_COMPARISON(symbol, function, mirrored)                   \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { \
    return function(detail::compared(#symbol, a), b);               \
  }                                                                 \
  inline Tensor operator symbol(const Tensor& a, const Scalar& b) { \
    return function(detail::compared(#symbol, a), b);               \
  }                                                                 \
  inline Tensor operator symbol(const Scalar& a, const Tensor& b) { return mirrored(b, a); }
CT_COMPARISON(<, lt, gt)
CT_COMPARISON(<=, le, ge)
CT_COMPARISON(>, gt, lt)
CT_COMPARISON(>=, ge, le)
#undef CT_COMPARISON

// In place, as the members add_, sub_, mul_ and div_: the tensor's elements change, for every handle and view
// of them. The dtype stays: DTypeError where the result's would be of a higher category. The left side may be
// a view without a name, x[0] += y; ValueError where nobody would see the change, as for Tensor's =.
#define CT_ASSIGNMENT(symbol, member)                                                \
  inline Tensor& operator symbol(Tensor& a, const Tensor& b) { return a.member(b); } \
  inline Tensor& operator symbol(Tensor& a, const Scalar& b) { return a.member(b); } \
  inline Tensor operator symbol(Tensor&& a, const Tensor& b) {                       \
    return detail::assigned(#symbol, a).member(b);                                   \
  }                                                                                  \
  inline Tensor operator symbol(Tensor&& a, const Scalar& b) {                       \
    return detail::assigned(#symbol, a).member(b);                                   \
  }
CT_ASSIGNMENT(+=, add_)
CT_ASSIGNMENT(-=, sub_)
CT_ASSIGNMENT(*=, mul_)
CT_ASSIGNMENT(/=, div_)
#undef CT_ASSIGNMENT

}  // namespace ct
