#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>

#include <cotangent/core/base/convert_element.h>
#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/number.h>

namespace ct {

/// A single number that remembers whether it was a bool, an integer or a floating value, so that
/// `tensor * 2` keeps an integer tensor's dtype and `tensor * 0.5` does not. Made from numbers and bools, and
/// from nothing that C++ would turn into one: no pointers, characters or enums.
class Scalar {
 public:
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \
    "-Wshadow"  // g++ before 13 takes a scoped enumerator for one that hides ct::boolean
  enum class Kind : std::uint8_t { boolean, integer, floating };
#pragma GCC diagnostic pop

  constexpr Scalar() : Scalar(0) {}
  template <std::same_as<bool> T>
  constexpr Scalar(T value) : integer_(value), kind_(Kind::boolean) {}
  /// Unsigned values beyond 2^63 - 1 count as floating ones.
  template <WholeNumber T>
  constexpr Scalar(T value) : integer_(static_cast<std::int64_t>(value)), kind_(Kind::integer) {
    if constexpr (std::unsigned_integral<T> && sizeof(T) >= sizeof integer_) {
      if (value > static_cast<T>(INT64_MAX)) {
        floating_ = static_cast<double>(value);
        kind_ = Kind::floating;
      }
    }
  }
  template <std::floating_point T>
  constexpr Scalar(T value) : floating_(static_cast<double>(value)), kind_(Kind::floating) {}
  constexpr Scalar(Half value) : Scalar(static_cast<float>(value)) {}
  constexpr Scalar(BFloat16 value) : Scalar(static_cast<float>(value)) {}

  constexpr Kind kind() const { return kind_; }
  constexpr bool is_floating() const { return kind_ == Kind::floating; }

  /// The value converted to an element type, as Tensor::to() converts elements: see convert_element(). Other
  /// numbers are reached through i64 or f64; integers keep the low bits, as u8 does.
  template <class T>
  constexpr T to() const {
    static_assert(ElementType<T> || Number<T>, "a Scalar becomes a number, a bool, ct::Half or ct::BFloat16");
    if constexpr (!ElementType<T>) {
      return static_cast<T>(to<host_t<T>>());
    } else {
      return is_floating() ? convert_element<T>(floating_) : convert_element<T>(integer_);
    }
  }

 private:
  union {
    double floating_;
    std::int64_t integer_;
  };
  Kind kind_;
};

/// The dtype of `tensor (op) scalar`: the tensor's dtype, unless the scalar is of a higher category
/// (bool < integer < floating); then f32 for a floating scalar and i64 for an integer one.
constexpr DType promote(DType tensor, const Scalar& scalar) {
  if (scalar.kind() == Scalar::Kind::floating) return is_floating(tensor) ? tensor : DType::f32;
  if (scalar.kind() == Scalar::Kind::integer) return tensor == DType::boolean ? DType::i64 : tensor;
  return tensor;
}

CT_API std::ostream& operator<<(std::ostream& out, const Scalar& scalar);

}  // namespace ct
