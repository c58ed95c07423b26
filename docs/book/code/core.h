#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

// Rates of one core of an x86-64 processor, for chapter 8: multiply-adds and loads that begin in a cycle.

namespace book {

#if defined(__x86_64__)

/// Seconds for one of the `each` instructions of `work`, the least of several rounds.
template <class Work>
double seconds_each(int each, Work&& work) {
  double least = INFINITY;
  for (int round = 0; round < 7; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 200'000; ++i) work();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least / 200'000 / each;
}

#define BOOK_ALL(each)                                                                                \
  each("0") each("1") each("2") each("3") each("4") each("5") each("6") each("7") each("8") each("9") \
      each("10") each("11")
#define BOOK_CLOBBERS                                                                                \
  "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11", "xmm14", "xmm15"
#define BOOK_ZMM_FMA(n) "vfmadd231ps %%zmm15, %%zmm14, %%zmm" n "\n"
#define BOOK_YMM_FMA(n) "vfmadd231ps %%ymm15, %%ymm14, %%ymm" n "\n"
#define BOOK_ZMM_CHAIN(n) "vfmadd231ps %%zmm15, %%zmm14, %%zmm0\n"
#define BOOK_YMM_CHAIN(n) "vfmadd231ps %%ymm15, %%ymm14, %%ymm0\n"
#define BOOK_ZMM_LOAD(n) "vmovups (%0), %%zmm" n "\n"
#define BOOK_YMM_LOAD(n) "vmovups (%0), %%ymm" n "\n"
#define BOOK_ADD(n) "add $1, %0\n"
#define BOOK_RUN(each) [&] { asm volatile(BOOK_ALL(each)::"r"(numbers) : BOOK_CLOBBERS); }

/// Prints cycles a second, and for vectors of 16 and of 8 numbers the multiply-adds and loads that begin in a cycle, the cycles
/// that a multiply-add takes, and the limit that follows.
inline void print_core() {
  alignas(64) static float numbers[16] = {};
  long counter = 0;
  const double cycle = seconds_each(12, [&] { asm volatile(BOOK_ALL(BOOK_ADD) : "+r"(counter)); });
  std::printf("%.2f billion cycles a second\n", 1e-9 / cycle);
  const auto row = [&](int lanes, double begun, double chain, double load) {
    std::printf(
        "vectors of %2d   multiply-adds a cycle %.2f, each takes %.1f   loads a cycle %.2f   at most %.0f "
        "billion "
        "operations a second\n",
        lanes, cycle / begun, chain / cycle, cycle / load, 2e-9 * lanes / begun);
  };
  if (__builtin_cpu_supports("avx512f"))
    row(16, seconds_each(12, BOOK_RUN(BOOK_ZMM_FMA)), seconds_each(12, BOOK_RUN(BOOK_ZMM_CHAIN)),
        seconds_each(12, BOOK_RUN(BOOK_ZMM_LOAD)));
  if (__builtin_cpu_supports("fma"))
    row(8, seconds_each(12, BOOK_RUN(BOOK_YMM_FMA)), seconds_each(12, BOOK_RUN(BOOK_YMM_CHAIN)),
        seconds_each(12, BOOK_RUN(BOOK_YMM_LOAD)));
}

#else

inline void print_core() { std::printf("instructions of x86-64 are what this part measures\n"); }

#endif

}  // namespace book
