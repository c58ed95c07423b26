#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/engine/gemm/gemm_cpu.h>

namespace ct::gemm {

// A product of integers, row by row of C: sums wrap around, hence the unsigned type.
template <class T>
[[gnu::noinline]] void run_integer(const Gemm& g, std::int64_t batch, std::int64_t a_batch,
                                   std::int64_t b_batch, std::int64_t c_batch, T alpha, const T* a,
                                   const T* b, T beta, const T* bias, T* c) {
  if (g.m <= 0 || g.n <= 0 || batch <= 0) return;
  using U = std::make_unsigned_t<std::common_type_t<T, int>>;
  const std::int64_t row_cost = std::max<std::int64_t>(1, g.n * std::max<std::int64_t>(g.k, 1));
  parallel_for(
      batch * g.m, std::max<std::int64_t>(1, 65536 / row_cost), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
          const T* a_row = a + t / g.m * a_batch + t % g.m * g.a_row;
          const T* b_item = b + t / g.m * b_batch;
          T* c_row = c + t / g.m * c_batch + t % g.m * g.c_row;
          for (std::int64_t j = 0; j < g.n; ++j) {
            U x = beta == 0 ? U{0} : static_cast<U>(static_cast<U>(beta) * static_cast<U>(c_row[j]));
            if (bias != nullptr) x += static_cast<U>(bias[j]);
            c_row[j] = static_cast<T>(x);
          }
          for (std::int64_t p = 0; p < g.k; ++p) {
            const U scale = static_cast<U>(static_cast<U>(alpha) * static_cast<U>(a_row[p * g.a_col]));
            const T* b_row = b_item + p * g.b_row;
            for (std::int64_t j = 0; j < g.n; ++j)
              c_row[j] =
                  static_cast<T>(static_cast<U>(c_row[j]) + scale * static_cast<U>(b_row[j * g.b_col]));
          }
        }
      });
}

}  // namespace ct::gemm
