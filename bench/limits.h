#pragma once

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/simd/stream.h>
#include <cotangent/core/simd/vector.h>

#include <algorithm>
#include <cstdint>

// The work that shows what a processor can do at most: nothing but multiply-adds, and nothing but copying. Rates of
// benchmarks (bench/limits.cpp) and of ladders (bench/ladders/) are held against it, measured in the same run.

namespace ct::bench {

/// Runs independent chains of fused multiply-adds on each of `threads` threads (at most ct::num_threads() of which run at
/// a time), as wide as the compiler's target allows and as many as have a register each. Returns the number of
/// floating-point operations.
inline double fma_work(int threads) {
#if defined(__AVX512F__)
  constexpr int kLanes = 16;
#elif defined(__AVX2__)
  constexpr int kLanes = 8;
#else
  constexpr int kLanes = 4;
#endif
  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
  constexpr int kChains = simd::kVectorRegisters == 32 ? 16 : 12, kSteps = 1 << 16;
  ct::parallel_for(threads, 1, [](std::int64_t, std::int64_t) {
    Vector sum[kChains];
    for (int c = 0; c < kChains; ++c) sum[c] = Vector{} + static_cast<float>(c);
    const Vector a = Vector{} + 0.999999f, b = Vector{} + 1e-6f;
    for (int s = 0; s < kSteps; ++s) {
#pragma GCC unroll 16
      for (int c = 0; c < kChains; ++c) sum[c] = sum[c] * a + b;
    }
    for (int c = 1; c < kChains; ++c) sum[0] += sum[c];
    asm volatile("" ::"m"(sum[0]));  // somebody looks at it
  });
  return 2.0 * kLanes * kChains * kSteps * threads;
}

/// Stores of a copy: through the caches, or past them (stores that x86-64 calls non-temporal; elsewhere the same).
enum class Stores { plain, streaming };

/// Copies `bytes` bytes, a multiple of 64, with all threads and returns the number of bytes moved: each is read and
/// written. For streaming stores `to` must be a multiple of 64 too.
inline double copy_work(const char* from, char* to, std::int64_t bytes, Stores stores = Stores::plain) {
  ct::parallel_for(bytes / 64, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    if (stores == Stores::streaming) {
      simd::stream(to + begin * 64, from + begin * 64, static_cast<std::size_t>((end - begin) * 64));
      return simd::fence();
    }
    std::copy(from + begin * 64, from + end * 64, to + begin * 64);
    asm volatile("" ::: "memory");
  });
  return 2.0 * static_cast<double>(bytes);
}

}  // namespace ct::bench
