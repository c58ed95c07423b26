#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/number.h>
#include <cotangent/core/base/scalar.h>
#include <cotangent/core/tensor/tensor.h>

// Functions of two tensors, or of three, element by element, or of a tensor and a number on either side.
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

// ---- Quotients that are whole, and what is left: numbers -------------------------------------------------
// Integers are divided exactly. Dividing them by the number 0 throws ValueError; where a tensor of integers holds a 0, the
// quotient and what is left are 0. Floats divided by 0 give infinities and NaN.

/// a - b * trunc(a / b), exact, with the sign of a; % of C++.
CT_API Tensor fmod(const Tensor& a, const Tensor& b);
CT_API Tensor fmod(const Tensor& a, const Scalar& b);
CT_API Tensor fmod(const Scalar& a, const Tensor& b);
/// a - b * floor(a / b), with the sign of b; % of Python.
CT_API Tensor remainder(const Tensor& a, const Tensor& b);
CT_API Tensor remainder(const Tensor& a, const Scalar& b);
CT_API Tensor remainder(const Scalar& a, const Tensor& b);
/// floor(a / b). Integers stay integers. The gradient is 0.
CT_API Tensor floor_divide(const Tensor& a, const Tensor& b);
CT_API Tensor floor_divide(const Tensor& a, const Scalar& b);
CT_API Tensor floor_divide(const Scalar& a, const Tensor& b);

// ---- More functions: floats ---------------------------------------------------------------------------------

/// The angle of the point (b, a) in the plane, from -pi to pi; the signs of zeros count as C++'s atan2 has them. Its
/// gradients at the origin are 0.
CT_API Tensor atan2(const Tensor& a, const Tensor& b);
CT_API Tensor atan2(const Tensor& a, const Scalar& b);
CT_API Tensor atan2(const Scalar& a, const Tensor& b);
/// sqrt(a^2 + b^2), without overflow on the way. Its gradients at the origin are 0.
CT_API Tensor hypot(const Tensor& a, const Tensor& b);
CT_API Tensor hypot(const Tensor& a, const Scalar& b);
CT_API Tensor hypot(const Scalar& a, const Tensor& b);
/// a ln(b), and 0 where a is 0 and b not NaN. Where a is 0, the gradient of b is 0, and that of a for b <= 0.
CT_API Tensor xlogy(const Tensor& a, const Tensor& b);
CT_API Tensor xlogy(const Tensor& a, const Scalar& b);
CT_API Tensor xlogy(const Scalar& a, const Tensor& b);
/// x where x > 0, else weight * x (He et al., 2015). The weight has one number, or one for each place of axis 1: f[C] for
/// x of f[N, C, ...]; else ShapeError. The gradient of x at 0 is weight.
CT_API Tensor prelu(const Tensor& x, const Tensor& weight);

/// a + weight * (b - a), exactly a for weight 0 and b for 1. Floats.
CT_API Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
CT_API Tensor lerp(const Tensor& a, const Tensor& b, const Scalar& weight);
/// x + value * a * b. Numbers; for integers value must be an integer (DTypeError).
CT_API Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value = 1);
/// x + value * a / b. Floats.
CT_API Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value = 1);

// ---- Bits: integers, and bool but for shifts; no gradient --------------------------------------------------------

CT_API Tensor bitwise_and(const Tensor& a, const Tensor& b);
CT_API Tensor bitwise_and(const Tensor& a, const Scalar& b);
CT_API Tensor bitwise_and(const Scalar& a, const Tensor& b);
CT_API Tensor bitwise_or(const Tensor& a, const Tensor& b);
CT_API Tensor bitwise_or(const Tensor& a, const Scalar& b);
CT_API Tensor bitwise_or(const Scalar& a, const Tensor& b);
CT_API Tensor bitwise_xor(const Tensor& a, const Tensor& b);
CT_API Tensor bitwise_xor(const Tensor& a, const Scalar& b);
CT_API Tensor bitwise_xor(const Scalar& a, const Tensor& b);
/// Every bit the other way round; of bool: logical_not().
CT_API Tensor bitwise_not(const Tensor& x);
/// a times 2^b, wrapping around, and floor(a / 2^b). A negative b counts as more bits than a has: 0, or -1 for a negative
/// number shifted to the right.
CT_API Tensor bitwise_left_shift(const Tensor& a, const Tensor& b);
CT_API Tensor bitwise_left_shift(const Tensor& a, const Scalar& b);
CT_API Tensor bitwise_left_shift(const Scalar& a, const Tensor& b);
CT_API Tensor bitwise_right_shift(const Tensor& a, const Tensor& b);
CT_API Tensor bitwise_right_shift(const Tensor& a, const Scalar& b);
CT_API Tensor bitwise_right_shift(const Scalar& a, const Tensor& b);
inline Tensor operator~(const Tensor& x) { return bitwise_not(x); }

// ---- Comparisons: bool results, no gradient, any dtype -------------------------------------------------
// A number that is compared with a 16-bit tensor is rounded to its dtype first; one that is compared with integers is not.

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

/// |a - b| <= atol + rtol * |b|; infinities are close to their like alone, NaN to nothing, or to NaN if `equal_nan`.
/// Integers and bool are compared in f64. Throws ValueError for a tolerance that is negative or NaN.
CT_API Tensor isclose(const Tensor& a, const Tensor& b, Real rtol = 1e-5, Real atol = 1e-8,
                      Flag equal_nan = false);
/// Whether all elements are close. Waits for the device.
CT_API bool allclose(const Tensor& a, const Tensor& b, Real rtol = 1e-5, Real atol = 1e-8,
                     Flag equal_nan = false);
/// Whether the shapes are the same, and so are all elements; NaN equals nothing. Waits for the device.
CT_API bool equal(const Tensor& a, const Tensor& b);

// ---- Logic: anything but 0 is true; bool results, no gradient, any dtype ---------------------------------

CT_API Tensor logical_and(const Tensor& a, const Tensor& b);
CT_API Tensor logical_or(const Tensor& a, const Tensor& b);
CT_API Tensor logical_xor(const Tensor& a, const Tensor& b);
CT_API Tensor logical_not(const Tensor& x);
inline Tensor operator!(const Tensor& x) { return logical_not(x); }

// ---- Operators ------------------------------------------------------------------------------------------
// There is no == between tensors: it would be three questions. eq() and ne() compare elements, equal() all of them,
// Tensor::is_same() asks whether two handles share one tensor.

bool operator==(const Tensor&, const Tensor&) = delete;  // eq() compares elements, equal() whole tensors
bool operator==(const Tensor&, const Scalar&) = delete;  // eq() compares elements
bool operator==(const Scalar&, const Tensor&) = delete;  // eq() compares elements
bool operator!=(const Tensor&, const Tensor&) = delete;  // ne() compares elements, !equal() whole tensors
bool operator!=(const Tensor&, const Scalar&) = delete;  // ne() compares elements
bool operator!=(const Scalar&, const Tensor&) = delete;  // ne() compares elements

#define CT_OPERATOR(symbol, function)                                                        \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { return function(a, b); } \
  inline Tensor operator symbol(const Tensor& a, const Scalar& b) { return function(a, b); } \
  inline Tensor operator symbol(const Scalar& a, const Tensor& b) { return function(a, b); }
CT_OPERATOR(+, add)
CT_OPERATOR(-, sub)
CT_OPERATOR(*, mul)
CT_OPERATOR(/, div)
CT_OPERATOR(%, remainder)
CT_OPERATOR(&, bitwise_and)
CT_OPERATOR(|, bitwise_or)
CT_OPERATOR(^, bitwise_xor)
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
// a view without a name, x[0] += y; ValueError where the change would be invisible, as for Tensor's =.
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
