#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <cotangent/ops/reduce/scaled_internal.h>
#include <cotangent/ops/vector_internal.h>

// The arithmetic of the reductions on the CPU; see cpu_engine_internal.h for what a fold is.
//
// Contiguous elements are folded with four independent 64-byte vectors, the compiler's own vector type: their
// width is part of the result's definition, so it is the same on every machine. A block has at most 512
// elements, so a float lane sees eight additions before it is added to a double; that makes the error of a
// float sum that of its one rounding at the end, whatever the length.

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // 64-byte vectors are used inside functions only

namespace ct::reduction {

/// combine(...) over map(x[i]) of vectors. `pad` is an element whose map leaves every combination as it is.
template <class C, class Map, class Combine>
inline C fold_vectors(const C* x, int n, C identity, Map map, Combine combine, C pad) {
  using V = Vector<C>;
  constexpr int w = V::size;
  typename V::type a = typename V::type{} + identity;
  int i = 0;
  if (n >= 4 * w) {
    auto b = a, c = a, d = a;
    for (; i + 4 * w <= n; i += 4 * w) {
      a = combine(a, map(V::load(x + i)));
      b = combine(b, map(V::load(x + i + w)));
      c = combine(c, map(V::load(x + i + 2 * w)));
      d = combine(d, map(V::load(x + i + 3 * w)));
    }
    a = combine(combine(a, b), combine(c, d));
  }
  for (; i + w <= n; i += w) a = combine(a, map(V::load(x + i)));
  if (i < n) a = combine(a, map(V::load_first(x + i, n - i, pad)));
  return V::across(a, combine);
}
template <class C, class Map, class Combine>
inline C fold_vectors(const C* x, int n, C identity, Map map, Combine combine) {
  return fold_vectors(x, n, identity, map, combine, identity);
}

inline constexpr auto kSame = [](const auto& x) { return x; };
inline constexpr auto kPlus = [](const auto& a, const auto& b) { return a + b; };

/// Sums of x, |x|, or of x != 0.
enum class SumMode : std::uint8_t { plain, absolute, nonzero };

template <class Element>
struct SumFold {
  using C = Element;
  using Acc = std::conditional_t<std::is_integral_v<C>, std::uint64_t, double>;
  using Second = char;
  static constexpr bool kPositions = false;

  SumMode mode = SumMode::plain;
  double divisor = 1;        // for means
  std::int64_t repeats = 1;  // see Plan::repeats

  static Acc identity() { return 0; }

  void block(Acc& acc, const C* x, int n, std::int64_t) const {
    if constexpr (std::is_integral_v<C>) {
      acc += fold_vectors(reinterpret_cast<const Acc*>(x), n, Acc{0}, kSame, kPlus);  // wraps around
    } else {
      switch (mode) {
        case SumMode::plain: acc += fold_vectors(x, n, C(0), kSame, kPlus); break;
        case SumMode::absolute:
          acc += fold_vectors(
              x, n, C(0), [](const auto& v) { return v < 0 ? -v : v; }, kPlus);
          break;
        case SumMode::nonzero:
          for (int i = 0; i < n; ++i) acc += x[i] != 0;
      }
    }
  }
  void lanes(Acc* __restrict acc, const C* __restrict x, int n, std::int64_t) const {
    if constexpr (std::is_integral_v<C>) {
      for (int j = 0; j < n; ++j) acc[j] += static_cast<Acc>(x[j]);
    } else if (mode == SumMode::plain) {
      for (int j = 0; j < n; ++j) acc[j] += x[j];
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
  void finish(const Acc& acc, C& value, Second&) const {
    if constexpr (std::is_integral_v<C>) {
      value = static_cast<C>(acc * static_cast<Acc>(repeats));
    } else {
      value = static_cast<C>(acc * static_cast<double>(repeats) / divisor);
    }
  }
};

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
    Acc lane[8];
    for (Acc& l : lane) l = identity();
    int i = 0;
    for (; i + 8 <= n; i += 8)
      for (int j = 0; j < 8; ++j) take(lane[j], x[i + j]);
    for (; i < n; ++i) take(lane[0], x[i]);
    for (int half = 4; half > 0; half /= 2)
      for (int j = 0; j < half; ++j) merge(lane[j], lane[j + half]);
    merge(acc, lane[0]);
  }
  void lanes(Acc* acc, const C* x, int n, std::int64_t) const {
    for (int j = 0; j < n; ++j) {
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
  static void take(Acc& acc, C x) {
    if constexpr (kInteger) {
      acc *= static_cast<Acc>(x);
    } else {
      acc.take(x);
    }
  }
};

}  // namespace ct::reduction

#pragma GCC diagnostic pop
