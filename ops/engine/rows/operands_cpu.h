#pragma once

#include <cstdint>
#include <type_traits>

#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/engine/rows/blocks_cpu.h>

namespace ct::rows {

/// The type that a dtype is folded in.
template <class T>
using fold_t = std::conditional_t<std::is_same_v<T, double>, double,
                                  std::conditional_t<std::is_integral_v<T>, std::int64_t, float>>;

/// The elements of `x`, of any dtype that is folded in C.
template <class C>
Source<C> source_of(const Tensor& x) {
  Source<C> source{static_cast<const char*>(x.raw_data()), static_cast<std::int64_t>(size_of(x.dtype())),
                   nullptr};
  visit_all("reduce", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<fold_t<T>, C>) source.load = load_block<T, C>;
  });
  return source;
}

/// A sink into a contiguous tensor.
template <class C>
Sink<C> sink_of(const Tensor& out, bool accumulate = false) {
  Sink<C> sink{out.raw_data(), nullptr, nullptr, accumulate};
  visit_all("reduce", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<fold_t<T>, C>) sink.store = store_block<T, C>;
  });
  return sink;
}

}  // namespace ct::rows
