#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <cotangent/ops/engine/fold/fold_cpu.h>
#include <cotangent/ops/engine/fold/scaled.h>
#include <cotangent/ops/engine/rows/fold_vectors_cpu.h>
#include <cotangent/ops/engine/rows/record.h>

// Sums on the CPU; see engine/fold/fold_cpu.h for the parts of a fold.

namespace ct::fold {

using rows::fold_vectors, rows::kPlus, rows::kSame;

/// Sums of x, |x|, x != 0, or the root of the sum of x^2: of f32, whose squares f64 holds.
enum class SumMode : std::uint8_t { plain, absolute, nonzero, root_of_squares };

template <class Element>
struct SumFold {
  using C = Element;
  using Acc = std::conditional_t<std::is_integral_v<C>, std::uint64_t, double>;
  using Second = char;
  static constexpr bool kPositions = false;

  SumMode mode = SumMode::plain;
  double divisor = 1;        // for means
  std::int64_t repeats = 1;  // see Plan::repeats
  // The sum of a run, and of four rows column by column, as they are stored, where that is faster.
  Acc (*run)(const void* x, std::int64_t n) = nullptr;
  void (*stored_quad)(Acc* acc, std::array<const void*, 4> rows, int n) = nullptr;
  const rows::Passes* passes = nullptr;  // what makes the elements

  static Acc identity() { return 0; }

  void block(Acc& acc, const C* x, int n, std::int64_t) const {
    if constexpr (std::is_integral_v<C>) {
      acc += fold_vectors(reinterpret_cast<const Acc*>(x), n, Acc{0}, kSame, kPlus);  // wraps around
    } else {
      switch (mode) {
        case SumMode::plain: acc += fold_vectors(x, n, C(0), kSame, kPlus); break;
        case SumMode::absolute:
          acc += fold_vectors(
              x, n, C(0), [](const auto& v) { return where(v < 0, -v, v); }, kPlus);
          break;
        case SumMode::nonzero:
          for (int i = 0; i < n; ++i) acc += x[i] != 0;
          break;
        case SumMode::root_of_squares: {
          double sum = fold_vectors(
              x, n, C(0), [](const auto& v) { return v * v; }, kPlus);
          if (!Powers<C>::in_range(static_cast<C>(sum))) {
            sum = 0;
            for (int i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
          }
          acc += sum;
        }
      }
    }
  }
  void lanes(Acc* __restrict acc, const C* __restrict x, int n, std::int64_t) const {
    if constexpr (std::is_integral_v<C>) {
      for (int j = 0; j < n; ++j) acc[j] += static_cast<Acc>(x[j]);
    } else if (mode == SumMode::plain) {
      for (int j = 0; j < n; ++j) acc[j] += x[j];
    } else if (mode == SumMode::root_of_squares) {
      for (int j = 0; j < n; ++j) acc[j] += static_cast<double>(x[j]) * static_cast<double>(x[j]);
    } else if (mode == SumMode::absolute) {
      for (int j = 0; j < n; ++j) acc[j] += std::abs(x[j]);
    } else {
      for (int j = 0; j < n; ++j) acc[j] += x[j] != 0;
    }
  }
  /// Four rows at a time: an accumulator is then read and written once for four elements.
  bool takes_quads() const { return mode == SumMode::plain; }
  void quad(Acc* __restrict acc, const C* __restrict a, const C* __restrict b, const C* __restrict c,
            const C* __restrict d, int n) const {
    if constexpr (std::is_integral_v<C>) {
      for (int j = 0; j < n; ++j)
        acc[j] +=
            static_cast<Acc>(a[j]) + static_cast<Acc>(b[j]) + static_cast<Acc>(c[j]) + static_cast<Acc>(d[j]);
    } else {
      for (int j = 0; j < n; ++j) acc[j] += (a[j] + b[j]) + (c[j] + d[j]);
    }
  }
  void merge(Acc& acc, const Acc& later) const { acc += later; }
  void finish_run(const Acc* acc, C* values, int n) const {
    if constexpr (std::is_integral_v<C>) {
      for (int i = 0; i < n; ++i) values[i] = static_cast<C>(acc[i] * static_cast<Acc>(repeats));
    } else {
      const auto sum = [&](int i) { return acc[i] * static_cast<double>(repeats) / divisor; };
      if (mode == SumMode::root_of_squares) {
        for (int i = 0; i < n; ++i) values[i] = static_cast<C>(std::sqrt(sum(i)));
      } else {
        for (int i = 0; i < n; ++i) values[i] = static_cast<C>(sum(i));
      }
    }
  }
};
// Sums are reduced by several rooms: made once, in sum_cpu.cpp.
#define CT_SUM_FOLD(C, PREFIX) \
  PREFIX template void run_fold(const SumFold<C>&, const Plan&, const Source<C>&, const Sink<C>&)
CT_SUM_FOLD(float, extern);
CT_SUM_FOLD(double, extern);
CT_SUM_FOLD(std::int64_t, extern);

}  // namespace ct::fold
