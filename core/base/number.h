#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <cotangent/core/base/export.h>  // says so below C++20

// C++ values that count as numbers. C++ turns bools, characters, enums and pointers into numbers, numbers
// into bools and 1.5 into 1 without a word; in sum(x, 0, 1), x[1.5] or softmax(x, true) that is a mistake.

namespace ct {

/// An integer or floating type, but neither bool nor a type of characters. (std::int8_t and std::uint8_t are
/// numbers.)
template <class T>
concept Number = std::is_arithmetic_v<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                 !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> && !std::same_as<T, char16_t> &&
                 !std::same_as<T, char32_t>;
/// A Number without a fraction.
template <class T>
concept WholeNumber = Number<T> && std::integral<T>;

/// A value of type From stands for a T, without loss of meaning: a bool for a bool, whole numbers and the names
/// of a plain enum for an integer, numbers for a floating type.
template <class From, class T>
concept StandsFor = std::same_as<From, T> ||(std::same_as<T, double>&& Number<From>) ||
                    (std::same_as<T, std::int64_t> &&
                     (WholeNumber<From> || (std::is_enum_v<From> && std::is_convertible_v<From, T>)));

/// A parameter of type T that takes what stands for a T, and nothing else.
template <class T>
class Exactly {
 public:
  template <StandsFor<T> From>
  constexpr Exactly(From value) : value_(static_cast<T>(value)) {}
  constexpr operator T() const { return value_; }

 private:
  T value_;
};

using Flag = Exactly<bool>;
using Integer = Exactly<std::int64_t>;
using Real = Exactly<double>;

}  // namespace ct
