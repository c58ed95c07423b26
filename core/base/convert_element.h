#pragma once

#include <cstdint>
#include <type_traits>

#include <cotangent/core/base/dtype.h>

// Conversion of one element or number, written once for both devices.

namespace ct {

namespace detail {
/// Truncates towards zero. A value outside T's range becomes its nearest end and NaN becomes 0: C++ leaves
/// that undefined, and the two devices would differ.
template <class T, class F>
CT_HD constexpr T truncate_to(F value) {
  constexpr F above = static_cast<F>(sizeof(T) == 8 ? 9223372036854775808.0 : 2147483648.0);
  if (value >= above) return static_cast<T>(sizeof(T) == 8 ? INT64_MAX : INT32_MAX);
  if (value <= -above) return static_cast<T>(sizeof(T) == 8 ? INT64_MIN : INT32_MIN);
  return value == value ? static_cast<T>(value) : T{0};
}
}  // namespace detail

/// `value` as a To: to bool is != 0; floating to integer truncates towards zero (u8 keeps the low 8 bits of
/// the truncated number, as integers do among themselves); to a narrower floating type rounds to nearest
/// even.
template <class To, class From>
CT_HD constexpr To convert_element(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>) {
    return convert_element<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, std::uint8_t>) {
    return static_cast<std::uint8_t>(detail::truncate_to<std::int64_t>(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return detail::truncate_to<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace ct
