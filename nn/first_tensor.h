#pragma once

#include <any>
#include <concepts>
#include <cstddef>
#include <new>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cotangent/core/tensor/tensor.h>

// The tensor that forward hooks see of what a forward() takes and gives, whatever its signature.

namespace ct::nn::detail {

/// Turns into a Tensor and nothing else.
struct OnlyTensor {
  template <std::same_as<Tensor> T>
  operator T() const;
};
/// A struct without constructors that begins with a tensor, as RNNOutput does. (Whatever else takes a tensor takes
/// something else, too.)
template <class T>
concept BeginsWithTensor = std::is_aggregate_v<T> && std::is_standard_layout_v<T> && requires {
  T{OnlyTensor()};
} && !requires { T{std::nullopt}; }
&&!requires { T{std::any()}; }
&&!requires { T{0}; };

/// The first tensor of a value: itself, or the first of a tuple, an array, a list or map, a struct; null if there is none.
template <class T>
Tensor* first_tensor(T& value) {
  if constexpr (std::same_as<T, Tensor>) {
    return &value;
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return std::apply(
        [](auto&... all) {
          Tensor* found = nullptr;
          (void)((found = first_tensor(all)) || ...);
          return found;
        },
        value);
  } else if constexpr (requires { *value.begin(), value.begin() != value.end(); }) {
    for (auto&& one : value)
      if (Tensor* const found = first_tensor(one)) return found;
    return nullptr;
  } else if constexpr (BeginsWithTensor<T>) {
    return std::launder(reinterpret_cast<Tensor*>(&value));
  } else {
    return nullptr;
  }
}

/// The place of the first tensor among arguments of these types, or their number.
template <class... Args>
constexpr std::size_t first_tensor_among() {
  std::size_t place = 0;
  (void)((ct::detail::OneTensor<std::remove_cvref_t<Args>> || (++place, false)) || ...);
  return place;
}

/// The argument, or what a hook has put in its place.
template <bool kReplaced, class T>
decltype(auto) argument([[maybe_unused]] Tensor& replaced, T&& given) {
  if constexpr (kReplaced) {
    return (replaced);
  } else {
    return static_cast<T&&>(given);
  }
}

}  // namespace ct::nn::detail
