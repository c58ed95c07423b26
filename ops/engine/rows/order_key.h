#pragma once

#include <cstdint>
#include <type_traits>

#include <cotangent/core/base/dtype.h>

// Numbers as unsigned integers of the same order, to select the largest of a row by its bits.

namespace ct {

/// Keys of f64 and i64 have 64 bits, those of all other types 32.
template <class T>
using OrderKey = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// order_key(a) < order_key(b) if a < b. 0 and -0 have one key; a NaN has the largest, as sorting has it.
/// 16-bit numbers are converted to float by the caller.
template <class T>
CT_HD constexpr OrderKey<T> order_key(T x) {
  using K = OrderKey<T>;
  constexpr K top = K{1} << (8 * sizeof(K) - 1);
  if constexpr (std::is_floating_point_v<T>) {
    if (x != x) return ~K{0};
    const K bits = __builtin_bit_cast(K, x == T(0) ? T(0) : x);
    return bits & top ? ~bits : bits | top;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<K>(x) ^ top;
  } else {
    return static_cast<K>(x);
  }
}

/// The number of a key, but for those of 0 and NaN, which stand for several.
template <class T>
requires std::is_floating_point_v<T> CT_HD constexpr T from_order_key(OrderKey<T> key) {
  constexpr OrderKey<T> top = OrderKey<T>{1} << (8 * sizeof(key) - 1);
  return __builtin_bit_cast(T, key & top ? key ^ top : static_cast<OrderKey<T>>(~key));
}

}  // namespace ct
