#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <type_traits>
#include <utility>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/export.h>

namespace ct {

/// Element types. Floating types come first, in the order used by the promotion table.
enum class DType : std::uint8_t { f32, f64, f16, bf16, i64, i32, u8, boolean };
inline constexpr int kDTypeCount = 8;

inline constexpr DType f32 = DType::f32;
inline constexpr DType f64 = DType::f64;
inline constexpr DType f16 = DType::f16;
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType i64 = DType::i64;
inline constexpr DType i32 = DType::i32;
inline constexpr DType u8 = DType::u8;
inline constexpr DType boolean = DType::boolean;

namespace detail {

// IEEE 754 conversions, rounding to nearest even, subnormals, infinities and NaN kept.
CT_HD constexpr std::uint16_t f32_to_f16_bits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (magnitude < 0x38800000u) {  // subnormal half, or zero: let the float adder round at the right bit
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<std::uint16_t>(sign | ((magnitude + 0xc8000fffu + odd) >> 13));
}

CT_HD constexpr float f16_bits_to_f32(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t mantissa = half & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float subnormal = static_cast<float>(mantissa) * 5.9604644775390625e-8f;  // 2^-24
  return sign ? -subnormal : subnormal;
}

CT_HD constexpr std::uint16_t f32_to_bf16_bits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

CT_HD constexpr float bf16_bits_to_f32(std::uint16_t bf) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bf) << 16);
}

}  // namespace detail

/// IEEE binary16: storage and conversion; arithmetic happens in float.
struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  CT_HD constexpr explicit Half(float value) : bits(detail::f32_to_f16_bits(value)) {}
  CT_HD constexpr operator float() const { return detail::f16_bits_to_f32(bits); }
};

/// bfloat16: the upper half of a float; arithmetic happens in float.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  CT_HD constexpr explicit BFloat16(float value) : bits(detail::f32_to_bf16_bits(value)) {}
  CT_HD constexpr operator float() const { return detail::bf16_bits_to_f32(bits); }
};

namespace detail {
// Not inside of size_of(), where compilers copy it to the stack at each call.
inline constexpr std::uint8_t kElementBytes[kDTypeCount] = {4, 8, 2, 2, 8, 4, 1, 1};
}  // namespace detail
/// Bytes of one element.
constexpr std::size_t size_of(DType t) { return detail::kElementBytes[static_cast<int>(t)]; }

constexpr bool is_floating(DType t) { return t <= DType::bf16; }
constexpr bool is_integral(DType t) { return t == DType::i64 || t == DType::i32 || t == DType::u8; }
constexpr bool is_low_precision(DType t) { return t == DType::f16 || t == DType::bf16; }

/// "f32", "f64", "f16", "bf16", "i64", "i32", "u8", "bool".
CT_API std::string_view name(DType t);
CT_API std::ostream& operator<<(std::ostream& out, DType t);

/// The dtype of a result that combines `a` and `b`, both of full tensors: PyTorch's promotion lattice
/// (bool < u8 < i32 < i64 < {f16, bf16} < f32 < f64; f16 with bf16 gives f32).
CT_API DType promote(DType a, DType b);

/// The element type that sums and products accumulate in: f32 for f16, bf16 and f32, f64 for f64,
/// i64 for integers and bool.
constexpr DType accumulate_type(DType t) {
  return t == DType::f64 ? DType::f64 : is_floating(t) ? DType::f32 : DType::i64;
}

/// Maps a C++ element type to its DType: dtype_of<float> == f32.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::f32> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::f64> {};
template <>
struct DTypeOf<Half> : std::integral_constant<DType, DType::f16> {};
template <>
struct DTypeOf<BFloat16> : std::integral_constant<DType, DType::bf16> {};
template <>
struct DTypeOf<std::int64_t> : std::integral_constant<DType, DType::i64> {};
template <>
struct DTypeOf<std::int32_t> : std::integral_constant<DType, DType::i32> {};
template <>
struct DTypeOf<std::uint8_t> : std::integral_constant<DType, DType::u8> {};
template <>
struct DTypeOf<bool> : std::integral_constant<DType, DType::boolean> {};
/// A C++ type that tensors have elements of.
template <class T>
concept ElementType = requires {
  DTypeOf<std::remove_cv_t<T>>::value;
};
template <ElementType T>
inline constexpr DType dtype_of = DTypeOf<std::remove_cv_t<T>>::value;

/// The element type through which elements become a T: T itself, or for other numbers the widest of its kind.
template <class T>
using host_t = std::conditional_t<ElementType<T>, T,
                                  std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>>;

/// The C++ type that arithmetic on elements of T is done in: float for the 16-bit types, T otherwise.
template <class T>
using compute_t = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
/// The C++ type that sums of T are kept in (see accumulate_type).
template <class T>
using accumulate_t =
    std::conditional_t<std::is_same_v<T, double>, double,
                       std::conditional_t<std::is_same_v<compute_t<T>, float>, float, std::int64_t>>;

template <class T>
struct TypeTag {
  using type = T;
};

/// Calls f(TypeTag<T>{}) with the C++ type of a floating dtype; throws DTypeError otherwise.
template <class F>
decltype(auto) visit_floating(const char* op, DType t, F&& f) {
  switch (t) {
    case DType::f32: return f(TypeTag<float>{});
    case DType::f64: return f(TypeTag<double>{});
    case DType::f16: return f(TypeTag<Half>{});
    case DType::bf16: return f(TypeTag<BFloat16>{});
    default:
      detail::fail<DTypeError>(op, "got dtype ", name(t),
                               "; a floating dtype (f32, f64, f16, bf16) is needed");
  }
}

/// Calls f(TypeTag<T>{}) for the dtypes that fast kernels are for: f32, f16 and bf16. In f64 the CPU runs the op's plain
/// kernel instead (KernelKind in core/op/op_def.h); CUDA has f64 here too.
template <class F>
decltype(auto) visit_fast(const char* op, DType t, F&& f) {
#if defined(__CUDACC__)
  return visit_floating(op, t, std::forward<F>(f));
#else
  switch (t) {
    case DType::f32: return f(TypeTag<float>{});
    case DType::f16: return f(TypeTag<Half>{});
    case DType::bf16: return f(TypeTag<BFloat16>{});
    default:
      detail::fail<DTypeError>(op, "got dtype ", name(t),
                               "; its fast kernels are for f32, f16 and bf16: "
                               "convert with .to(dtype)");
  }
#endif
}

/// Calls f(TypeTag<T>{}) with the C++ type of any numeric dtype (everything but bool).
template <class F>
decltype(auto) visit_numeric(const char* op, DType t, F&& f) {
  switch (t) {
    case DType::i64: return f(TypeTag<std::int64_t>{});
    case DType::i32: return f(TypeTag<std::int32_t>{});
    case DType::u8: return f(TypeTag<std::uint8_t>{});
    case DType::boolean:
      detail::fail<DTypeError>(op, "got dtype bool; a numeric dtype is needed: convert with .to(f32)");
    default: return visit_floating(op, t, std::forward<F>(f));
  }
}

/// Calls f(TypeTag<T>{}) with the C++ type of any dtype.
template <class F>
decltype(auto) visit_all(const char* op, DType t, F&& f) {
  if (t == DType::boolean) return f(TypeTag<bool>{});
  return visit_numeric(op, t, std::forward<F>(f));
}

}  // namespace ct
