#pragma once

#include <cotangent/core/cuda/convert.h>

// How a kernel of rows reads its elements and writes its results: memory here, formulas of a captured step in the text of NVRTC's
// (map/chain_text.cpp). A vector begins at element i. For .cu files.

namespace ct::rows {

struct FromMemory {
  static constexpr bool kMakes = false;  // elements that others want to be asked for, too
  template <class T, int N>
  __device__ __forceinline__ void operator()(gpu::Vector<T, N>& v, const T* from, long long i) const {
    v = gpu::Vector<T, N>::load_streaming(from + i);
  }
  /// Element i; others of the row's threads read it, too.
  template <class T>
  __device__ __forceinline__ T at(const T* from, long long i) const {
    return from[i];
  }
};

struct ToMemory {
  template <class T, int N>
  __device__ __forceinline__ void operator()(const gpu::Vector<T, N>& v, T* to, long long i) const {
    v.store(to + i);
  }
};

}  // namespace ct::rows
