#pragma once

#include <cstdint>

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/ops/engine/fold/fold_kernels.cuh>

// Sums on CUDA; see engine/fold/fold_cuda.cuh for the parts of a fold.
//
// 16-bit types and float are folded in float: a thread first adds the 4 to 16 elements of a load as a tree,
// so it makes one addition per load to its own sum, and thousands of threads share a long sum. Its rounding
// error is that of a few dozen additions.

namespace ct::fold {

template <int N, class C, class Combine>
__device__ __forceinline__ C tree(const C (&x)[N], Combine combine) {
  C t[N];
#pragma unroll
  for (int i = 0; i < N; ++i) t[i] = x[i];
#pragma unroll
  for (int half = N / 2; half > 0; half /= 2)
#pragma unroll
    for (int i = 0; i < half; ++i) t[i] = combine(t[i], t[i + half]);
  return t[0];
}
using gpu::Plus;

#ifndef CT_KERNEL_TEXT
// Texts of plan.h, fold_kernels.cuh and this file (sum_text_cuda.cpp).
extern "C" [[gnu::visibility("hidden")]] const char cotangent_sum_rows[];
#endif

template <class Element>
struct SumFold {
#ifndef CT_KERNEL_TEXT
  static constexpr const char* kText = cotangent_sum_rows;
  static constexpr const char* kType = "fold::SumCall<";
#endif
  using C = Element;
  using Acc = C;
  using Second = char;

  C divisor = 1;
  C repeats = 1;
  bool scaled = false;  // divisor and repeats are to be used

  __device__ Acc identity() const { return 0; }
  template <int N>
  __device__ void add(Acc& acc, const C (&x)[N], std::int64_t) const {
    acc += tree(x, Plus{});
  }
  __device__ void merge(Acc& acc, const Acc& other) const { acc += other; }
  __device__ void finish(const Acc& acc, C& value, Second&) const {
    value = scaled ? acc * repeats / divisor : acc;
  }
};

template <class T>
using SumCall = RowsCall<T, SumFold<fold_t<T>>>;

}  // namespace ct::fold
