#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cotangent/core/simd/vector.h>
#include <cotangent/ops/engine/map/map.h>

// Runs: elements of one row, converted between a storage type S and a compute type C, for the driver (map_cpu.cpp).

namespace ct::map {

template <class S, class C>
void read_run(C* to, const S* from, std::int64_t stride, std::int64_t n) {
  if (stride == 1) {
    if constexpr (simd::is_16_bit<S> && std::is_same_v<C, float>)
      simd::convert_run(from, n, to);
    else
      for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<C>(from[i]);
  } else if (stride == 0) {
    std::fill_n(to, n, static_cast<C>(from[0]));
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<C>(from[i * stride]);
  }
}

template <class S, class C>
S narrow(C value) {
  if constexpr (std::is_same_v<S, bool>) return value != 0;
  if constexpr (simd::is_16_bit<S>) return S(static_cast<float>(value));
  return static_cast<S>(value);
}

template <class S, class C>
void write_run(S* to, const C* from, std::int64_t stride, std::int64_t n) {
  if (stride == 1) {
    if constexpr (simd::is_16_bit<S> && std::is_same_v<C, float>)
      simd::convert_run(from, n, to);
    else
      for (std::int64_t i = 0; i < n; ++i) to[i] = narrow<S>(from[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i * stride] = narrow<S>(from[i]);
  }
}

using Run = void (*)(void* compute, void* storage, std::int64_t stride, std::int64_t n);
template <class S, class C>
void read_run_erased(void* compute, void* storage, std::int64_t stride, std::int64_t n) {
  read_run(static_cast<C*>(compute), static_cast<const S*>(storage), stride, n);
}
template <class S, class C>
void write_run_erased(void* compute, void* storage, std::int64_t stride, std::int64_t n) {
  write_run(static_cast<S*>(storage), static_cast<const C*>(compute), stride, n);
}

// How one operand's elements get to the compute type and back.
struct Runs {
  Run read = nullptr;
  Run write = nullptr;
};
template <class S, class C>
inline constexpr Runs kRuns{read_run_erased<S, C>, write_run_erased<S, C>};

inline Runs runs_of(DType storage, Compute compute) {
  const bool wide = compute == Compute::f64;  // of a cold formula
  switch (storage) {
    case DType::f32: return wide ? kRuns<float, double> : kRuns<float, float>;
    case DType::f64: return kRuns<double, double>;
    case DType::f16: return wide ? kRuns<Half, double> : kRuns<Half, float>;
    case DType::bf16: return wide ? kRuns<BFloat16, double> : kRuns<BFloat16, float>;
    case DType::i64: return kRuns<std::int64_t, std::int64_t>;
    case DType::i32: return kRuns<std::int32_t, std::int64_t>;
    case DType::u8: return kRuns<std::uint8_t, std::int64_t>;
    case DType::boolean:  // also a mask among floats
      return compute == Compute::f32   ? kRuns<bool, float>
             : compute == Compute::f64 ? kRuns<bool, double>
                                       : kRuns<bool, std::int64_t>;
  }
  return {};
}

}  // namespace ct::map
