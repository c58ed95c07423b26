#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <cotangent/core/simd/wide.h>
#include <cotangent/ops/engine/fold/scaled.h>
#include <cotangent/ops/engine/rows/blocks_cpu.h>

// The arithmetic of the reductions on the CPU; see engine/fold/fold_cpu.h for what a fold is.

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

/// The product; see Product. The second result, and with `side` the first, are those of OtherFactors.
template <class Element>
struct ProdFold {
  using C = Element;
  static constexpr bool kInteger = std::is_integral_v<C>;
  using Acc = std::conditional_t<kInteger, std::uint64_t, Product<double>>;
  using Second = C;
  static constexpr bool kPositions = false;

  bool side = false;

  static Acc identity() {
    if constexpr (kInteger) return 1;
    return Acc{};
  }
  void block(Acc& acc, const C* x, int n, std::int64_t) const {
    int i = 0;
    if constexpr (kInteger) {
      Acc lane[8] = {1, 1, 1, 1, 1, 1, 1, 1};
      for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; ++j) lane[j] *= static_cast<Acc>(x[i + j]);
      for (const Acc& l : lane) acc *= l;
    } else {
      i = take_vectors(acc, x, n);
    }
    for (; i < n; ++i) {
      take(acc, x[i]);
      if constexpr (!kInteger) acc.normalize();
    }
  }
  void lanes(Acc* acc, const C* x, int n, std::int64_t) const {
    for (int j = 0; j < n; ++j) {
      if constexpr (!kInteger) {  // as long as nothing leaves the range there is nothing to take out
        const auto near = [](double v) { return (std::abs(v) > 0x1p-400) & (std::abs(v) < 0x1p400); };
        const double factor = static_cast<double>(x[j]), unit = acc[j].unit * factor;
        if (near(factor) & near(unit)) {
          acc[j].unit = unit;
          continue;
        }
      }
      take(acc[j], x[j]);
      if constexpr (!kInteger) acc[j].normalize();
    }
  }
  void merge(Acc& acc, const Acc& later) const {
    if constexpr (kInteger) {
      acc *= later;
    } else {
      acc.merge(later);
    }
  }
  void finish(const Acc& acc, C& value, Second& aux) const {
    if constexpr (kInteger) {
      value = static_cast<C>(acc);
    } else {
      const auto others = OtherFactors<C>::of(acc);
      value = side ? others.y : static_cast<C>(acc.value());
      aux = others.aux;
    }
  }

 private:
  /// Product::take for eight lanes; how many elements it took.
  static int take_vectors(Acc& acc, const C* x, int n) {
    using V = simd::detail::Raw<double, 64>;
    using I = simd::detail::Raw<std::int64_t, 64>;
    constexpr std::int64_t fields = 2047ll << 52, bias = 1023;
    typedef C Part __attribute__((vector_size(8 * sizeof(C))));
    V unit = V{} + 1;
    I exponent{}, zeros{};
    int i = 0;
    for (; i + 8 <= n; i += 8) {
      Part part;
      std::memcpy(&part, x + i, sizeof part);
      V v = __builtin_convertvector(part, V);
      const I zero = v == 0;
      v = zero ? V{} + 1 : v;
      I lifted{};
      if constexpr (sizeof(C) == 8) {  // subnormal numbers; f64 has none of f32
        lifted = ((I)v & fields) == 0;
        v = lifted ? v * 0x1p54 : v;
      }
      const I bits = (I)v, field = bits & fields, splits = field != fields;
      unit *= (V)(splits ? (bits & ~fields) | bias << 52 : bits);
      exponent += splits & ((field >> 52) - bias);
      exponent += lifted * 54;
      zeros -= zero;
    }
    for (int j = 0; j < 8; ++j) {
      Acc lane{unit[j], exponent[j], zeros[j]};
      lane.normalize();
      acc.merge(lane);
    }
    return i;
  }
  static void take(Acc& acc, C x) {
    if constexpr (kInteger) {
      acc *= static_cast<Acc>(x);
    } else {
      acc.take(x);
    }
  }
};

}  // namespace ct::fold
