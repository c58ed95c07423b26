#include <cuda_fp16.h>

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>

#include "bench/ladders/ladder.h"

// y = a + b, element by element: three memory accesses and one addition, so nothing counts but how the accesses are made.
// All other kernels make their loads and stores by what is found here.

namespace ct::ladder::elementwise {
namespace {

// Chunks: each thread adds 32 elements that lie side by side, as one would cut the work for threads of a CPU. The lanes
// of a warp then read addresses that are 128 bytes apart: every load touches 32 lines of 128 bytes and uses 4 bytes of
// each. The rest of a line is used by the loads after it, if the first-level cache still has it; with some 2000 threads
// on a multiprocessor, each with three lines of its own, it does not.
__global__ void chunks(const float* a, const float* b, float* y, long n) {
  const long begin = 32L * (static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x);
  for (long i = begin; i < begin + 32 && i < n; ++i) y[i] = a[i] + b[i];
}

// Naive: one thread for each element, thread i for element i. That looks wasteful and is nearly right: neighbouring lanes
// read neighbouring addresses, so the 32 loads of a warp are one transfer of 128 bytes (coalesced). The loss: an
// address, a bound and a thread's beginning and end for each 12 bytes moved, and only one load of a and of b on its way
// per thread. A multiprocessor has 2048 threads, so 16 KiB of reads are on their way, about a third less than what keeps
// this memory busy (rate times latency, some 4.5 TB/s times 700 ns, is 24 KiB a multiprocessor).
template <class T>
__global__ void naive(const T* a, const T* b, T* y, long n) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a[i] + b[i];
}

// Grid stride: as many blocks as are resident at once, which walk over the array with the grid's width as their step. The
// grid no longer depends on the problem, any n fits, blocks are started once, and a warp's loads stay coalesced because
// it is the step that is long, not a thread's own chunk. The loop is unrolled, so four loads of a and b are requested
// before the first is waited for: more bytes on their way from the same threads. (The stores may not be moved before
// later loads unless the compiler knows that y is neither a nor b: __restrict__ says so.)
template <class T>
__global__ void grid_stride(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ y, long n) {
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = a[i] + b[i];
}

// Pairs (f16): two elements are 4 bytes, so a warp's access is again a full line of 128 bytes, which of single halves it
// fills half; and __hadd2 adds both with one instruction. Half as many instructions for the same bytes.
__global__ void pairs(const __half* a, const __half* b, __half* y, long n) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n / 2)
    reinterpret_cast<__half2*>(y)[i] =
        __hadd2(reinterpret_cast<const __half2*>(a)[i], reinterpret_cast<const __half2*>(b)[i]);
  if (i == 0 && n % 2 != 0) y[n - 1] = a[n - 1] + b[n - 1];
}

// Vectors: 16 bytes are what one instruction of a thread can load. A warp's access is four full lines, addresses and
// bounds are computed once for 4 or 8 elements, and bytes are on their way in the number that the memory needs without
// any loop. The addresses must be multiples of 16, which a tensor's beginning is; the rest at the end of the array takes
// the first threads another, narrow access.
__device__ float4 plus(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
struct alignas(16) Half8 {
  __half2 pair[4];
};
__device__ Half8 plus(Half8 a, Half8 b) {
  for (int i = 0; i < 4; ++i) a.pair[i] = __hadd2(a.pair[i], b.pair[i]);
  return a;
}
template <class T, class V>
__global__ void vectors(const T* a, const T* b, T* y, long n) {
  constexpr long kSize = sizeof(V) / sizeof(T);
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n / kSize)
    reinterpret_cast<V*>(y)[i] = plus(reinterpret_cast<const V*>(a)[i], reinterpret_cast<const V*>(b)[i]);
  const long rest = n / kSize * kSize + i;
  if (rest < n) y[rest] = a[rest] + b[rest];
}

// ---- the ladder ----

template <class T, class Kernel>
void launch(const Call& c, Kernel kernel, std::int64_t per_thread) {
  const std::int64_t n = c.size(0);
  ct::gpu::launch("ladder", kernel, ct::gpu::blocks_for("ladder", n, 256 * per_thread), 256, 0, c.input<T>(0),
                  c.input<T>(1), c.output<T>(0), n);
}
void launch_chunks(const Call& c) { launch<float>(c, chunks, 32); }
void launch_naive(const Call& c) {
  c.of.dtype == ct::f32 ? launch<float>(c, naive<float>, 1) : launch<__half>(c, naive<__half>, 1);
}
template <class T>
void stride(const Call& c) {
  const std::int64_t n = c.size(0);
  ct::gpu::launch("ladder", grid_stride<T>, ct::gpu::grid_stride_blocks(n, 256, 8), 256, 0, c.input<T>(0),
                  c.input<T>(1), c.output<T>(0), n);
}
void launch_grid_stride(const Call& c) { c.of.dtype == ct::f32 ? stride<float>(c) : stride<__half>(c); }
void launch_pairs(const Call& c) { launch<__half>(c, pairs, 2); }
void launch_vectors(const Call& c) {
  c.of.dtype == ct::f32 ? launch<float>(c, vectors<float, float4>, 4)
                        : launch<__half>(c, vectors<__half, Half8>, 8);
}

Tensors inputs(const Case& c) { return {ct::randn({c.size[0]}), ct::randn({c.size[0]})}; }
Tensors sum_of_both(const Tensors& in) { return {ct::add(in[0], in[1])}; }

const std::vector<ct::DType> kBoth = {ct::f32, ct::f16};
const bool kAdded = ct::ladder::add({
    .name = "elementwise",
    .what = "y = a + b, n numbers",
    .device = ct::DeviceType::cuda,
    .unit = Unit::bytes,
    .small = {{ct::f32, {100'003}}, {ct::f16, {100'003}}},
    .timed = {{ct::f32, {1 << 27}}, {ct::f16, {1 << 27}}},
    .work = [](const Case& c) { return 3.0 * static_cast<double>(c.size[0]) * size_of(c.dtype); },
    .inputs = inputs,
    .plain = sum_of_both,
    .library = sum_of_both,
    .library_name = "ct::add",
    .rungs = {{"chunks", "a thread adds neighbours: each lane has a line of its own", launch_chunks},
              {"naive", "thread i adds element i: a warp reads one line", launch_naive, kBoth},
              {"grid-stride", "blocks stay, several loads of a thread are on their way", launch_grid_stride,
               kBoth},
              {"pairs", "two halves at once: a warp's access fills its line", launch_pairs, {ct::f16}},
              {"vectors", "16 bytes by one instruction", launch_vectors, kBoth}},
});

}  // namespace
}  // namespace ct::ladder::elementwise
