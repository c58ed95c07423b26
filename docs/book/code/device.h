#pragma once

#include <math.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

// CUDA's words for a kernel that runs on the CPU (emulator.h). g++ includes this file before the kernel's own text, which
// nvcc compiles as it stands. Shared arrays have a size known to the compiler and stand in functions that are no templates.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("shared_memory")))

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 : uint3 {
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : uint3{x, y, z} {}
};

struct float2 {
  float x, y;
};

namespace emulator {
uint3 thread_index();
uint3 block_index();
uint3 block_size();
uint3 grid_size();
/// The bits that lane `source` of the warp brings, once all lanes of `mask` have come to this line.
std::uint64_t exchange(unsigned mask, std::uint64_t bits, int source, int line);
int lane();

template <class T>
T shuffled(unsigned mask, T value, int source, int line) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(mask, bits, source, line);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
}  // namespace emulator

// Calls and no variables: what a kernel reads of these is no memory traffic.
#define threadIdx (emulator::thread_index())
#define blockIdx (emulator::block_index())
#define blockDim (emulator::block_size())
#define gridDim (emulator::grid_size())
constexpr int warpSize = 32;

/// A barrier of the block: all its threads come to the same line, or the judge says which did not.
void __syncthreads(int line = __builtin_LINE());
/// The same of those lanes of a warp that `mask` names.
void __syncwarp(unsigned mask = ~0u, int line = __builtin_LINE());

template <class T>
T __shfl_sync(unsigned mask, T v, int source, int width = 32, int line = __builtin_LINE()) {
  return emulator::shuffled(mask, v, (emulator::lane() & ~(width - 1)) + (source & (width - 1)), line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32, int line = __builtin_LINE()) {
  const int lane = emulator::lane(), other = lane ^ bits;
  return emulator::shuffled(mask, v, other / width <= lane / width ? other : lane, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, int by, int width = 32, int line = __builtin_LINE()) {
  const int lane = emulator::lane();
  return emulator::shuffled(mask, v, lane % width + by < width ? lane + by : lane, line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, int by, int width = 32, int line = __builtin_LINE()) {
  const int lane = emulator::lane();
  return emulator::shuffled(mask, v, lane % width >= by ? lane - by : lane, line);
}

float atomicAdd(float* to, float value);
int atomicAdd(int* to, int value);

using std::max;
using std::min;
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
template <class T>
T __ldg(const T* from) {
  return *from;
}
