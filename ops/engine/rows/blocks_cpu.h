#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cotangent/core/simd/vector.h>
#include <cotangent/core/simd/wide.h>
#include <cotangent/core/tensor/tensor.h>

// Rows on the CPU in blocks that fit in the first-level cache: elements of any dtype are converted there to float, double or
// int64, folded in vectors, and converted back.

namespace ct::rows {

inline constexpr int kBlock = 512;     // elements converted at a time
inline constexpr int kColumns = 2048;  // neighbouring columns folded at a time

// ---- reading ----

/// Reads n elements of `p` at the given stride as C: in place where nothing has to be done.
template <class C>
using LoadFn = const C* (*)(const void* p, std::int64_t stride, int n, C* buffer);

template <class T, class C>
const C* load_block(const void* p, std::int64_t stride, int n, C* buffer) {
  const T* x = static_cast<const T*>(p);
  if (stride == 1) {
    if constexpr (std::is_same_v<T, C>) return x;
    if constexpr (simd::is_16_bit<T>) {
      simd::convert_run(x, n, buffer);
    } else {
      for (int i = 0; i < n; ++i) buffer[i] = static_cast<C>(x[i]);
    }
  } else {
    for (int i = 0; i < n; ++i) buffer[i] = static_cast<C>(x[i * stride]);
  }
  return buffer;
}

template <class C>
struct Source {
  const char* data;
  std::int64_t element_size;
  LoadFn<C> load;

  const char* at(std::int64_t offset) const { return data + offset * element_size; }
  const C* read(std::int64_t offset, std::int64_t stride, int n, C* buffer) const {
    return load(at(offset), stride, n, buffer);
  }
};

// ---- writing ----

template <class C>
using StoreFn = void (*)(void* out, std::int64_t first, const C* values, int n, bool accumulate);

template <class T, class C>
void store_block(void* out, std::int64_t first, const C* values, int n, bool accumulate) {
  T* y = static_cast<T*>(out) + first;
  if constexpr (simd::is_16_bit<T>) {
    if constexpr (std::is_same_v<C, float>)
      if (!accumulate) return simd::convert_run(values, n, y);
    for (int i = 0; i < n; i += kBlock) {
      const int m = std::min(kBlock, n - i);
      float wide[kBlock];
      if (accumulate) simd::convert_run(y + i, m, wide);
      for (int k = 0; k < m; ++k)
        wide[k] = static_cast<float>(accumulate ? static_cast<C>(wide[k]) + values[i + k] : values[i + k]);
      simd::convert_run(wide, m, y + i);
    }
  } else if (accumulate) {
    for (int i = 0; i < n; ++i) y[i] = T(static_cast<C>(y[i]) + values[i]);
  } else if constexpr (std::is_same_v<T, bool>) {
    for (int i = 0; i < n; ++i) y[i] = values[i] != 0;
  } else {
    for (int i = 0; i < n; ++i) y[i] = T(values[i]);
  }
}

/// Destination of results; either pointer may be null. `second` is an array of the fold's Second.
template <class C>
struct Sink {
  void* values = nullptr;
  StoreFn<C> store = nullptr;
  void* second = nullptr;
  bool accumulate = false;
};

// Readers and writers are compiled once, in blocks_cpu.cpp.
#define CT_BLOCKS_OF(T, PREFIX)                                                              \
  PREFIX template const float* load_block<T, float>(const void*, std::int64_t, int, float*); \
  PREFIX template void store_block<T, float>(void*, std::int64_t, const float*, int, bool)
#define CT_BLOCK_TEMPLATES(PREFIX) \
  CT_BLOCKS_OF(Half, PREFIX);      \
  CT_BLOCKS_OF(BFloat16, PREFIX)
CT_BLOCK_TEMPLATES(extern);

inline constexpr auto kPlus = [](const auto& a, const auto& b) { return a + b; };

}  // namespace ct::rows
