#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cotangent/core/simd/half.h>
#include <cotangent/ops/engine/fold/products.h>

// The product on the CPU; see engine/fold/fold_cpu.h for the parts of a fold.

namespace ct::fold {

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
