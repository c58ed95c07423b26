#pragma once

#include <cmath>

// Shared parts of the softmax rungs: shuffles, the online join, and a thread's share of a row. For .cu files.

namespace ct::ladder::softmax {

template <class Op>
__device__ float warp_all(float v, Op op) {
  for (int s = 16; s > 0; s /= 2) v = op(v, __shfl_xor_sync(~0u, v, s));
  return v;
}
__device__ inline float larger(float a, float b) { return fmaxf(a, b); }
__device__ inline float plus(float a, float b) { return a + b; }

// A maximum so far and the sum of exp(x - m) so far; two of them join by bringing the smaller maximum's sum to the larger
// maximum. An empty one (m = -inf) adds nothing: exp(-inf - m) is 0, but -inf - -inf is no number, hence the question.
struct Running {
  float m = -INFINITY, sum = 0;
  __device__ void join(float other_m, float other_sum) {
    const float top = fmaxf(m, other_m);
    if (top == -INFINITY) return;
    sum = sum * expf(m - top) + other_sum * expf(other_m - top);
    m = top;
  }
};

// Factor that turns exponentials against a warp's own maximum `m` into the row's probabilities; `pairs` holds maximum and
// sum of each of the row's `count` warps.
__device__ inline float factor(const float2* pairs, int count, float m) {
  Running all;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < count; i += 32) all.join(pairs[i].x, pairs[i].y);
  const float top = warp_all(all.m, larger);
  return expf(m - top) / warp_all(all.m == -INFINITY ? 0 : all.sum * expf(all.m - top), plus);
}

// A thread's vectors of a row, kept in registers: all are requested before the first is used, the row is read once.
// Vector k of thread t is number t + k * step, so that neighbouring threads read neighbouring addresses.
template <int kVectors>
struct Share {
  float4 v[kVectors];
  int first, step, packs;

  /// load(i) gives vector i of `packs`.
  template <class Load>
  __device__ Share(int packs, int first, int step, Load load) : first(first), step(step), packs(packs) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = first + k * step;
      v[k] = i < packs ? load(i) : float4{-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    }
  }
  __device__ float max() const {
    float m = -INFINITY;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) m = fmaxf(fmaxf(m, fmaxf(v[k].x, v[k].y)), fmaxf(v[k].z, v[k].w));
    return m;
  }
  // Replaces the elements by their exponentials; the sum of these.
  __device__ float exponentials(float m) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      v[k] = {expf(v[k].x - m), expf(v[k].y - m), expf(v[k].z - m), expf(v[k].w - m)};
      sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
    }
    return sum;
  }
  /// store(i, vector) for each vector, times `scale`.
  template <class Store>
  __device__ void store(float scale, Store store) const {
#pragma unroll
    for (int k = 0; k < kVectors; ++k)
      if (const int i = first + k * step; i < packs)
        store(i, float4{v[k].x * scale, v[k].y * scale, v[k].z * scale, v[k].w * scale});
  }
};

}  // namespace ct::ladder::softmax
