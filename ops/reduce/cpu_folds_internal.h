#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

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

/// Sums of x, |x|, x^2, |x|^p, or of x != 0.
enum class SumMode : std::uint8_t { plain, absolute, square, power, nonzero };

/// What becomes of a sum: value = root(sum * scale) (mean, norm).
enum class SumEnd : std::uint8_t { scale, square_root, root };

template <class Element>
struct SumFold {
  using C = Element;
  using Acc = std::conditional_t<std::is_integral_v<C>, std::uint64_t, double>;
  using Second = char;
  static constexpr bool kPositions = false;

  SumMode mode = SumMode::plain;
  SumEnd end = SumEnd::scale;
  double p = 2;
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
        case SumMode::square:
          acc += fold_vectors(
              x, n, C(0), [](const auto& v) { return v * v; }, kPlus);
          break;
        default:
          for (int i = 0; i < n; ++i) acc += mapped(x[i]);
      }
    }
  }
  void lanes(Acc* __restrict acc, const C* __restrict x, int n, std::int64_t) const {
    if constexpr (std::is_integral_v<C>) {
      for (int j = 0; j < n; ++j) acc[j] += static_cast<Acc>(x[j]);
    } else if (mode == SumMode::plain) {
      for (int j = 0; j < n; ++j) acc[j] += x[j];
    } else if (mode == SumMode::square) {
      for (int j = 0; j < n; ++j) acc[j] += x[j] * x[j];
    } else if (mode == SumMode::absolute) {
      for (int j = 0; j < n; ++j) acc[j] += std::abs(x[j]);
    } else {
      for (int j = 0; j < n; ++j) acc[j] += mapped(x[j]);
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
      const double sum = acc * static_cast<double>(repeats) / divisor;
      value = static_cast<C>(end == SumEnd::square_root ? std::sqrt(sum)
                             : end == SumEnd::root      ? std::pow(sum, 1 / p)
                                                        : sum);
    }
  }

 private:
  double mapped(C x) const {
    return mode == SumMode::nonzero ? static_cast<double>(x != 0)
                                    : std::pow(std::abs(static_cast<double>(x)), p);
  }
};

/// The product. Zeros are counted rather than multiplied in, because the gradient needs the product of the
/// other factors; the second result is their number.
template <class Element>
struct ProdFold {
  using C = Element;
  using Product = std::conditional_t<std::is_integral_v<C>, std::uint64_t, double>;
  struct Acc {
    Product product;
    std::int64_t zeros;
  };
  using Second = C;
  static constexpr bool kPositions = false;

  bool skip_zeros = false;  // value is the product of the other factors

  static Acc identity() { return {1, 0}; }
  void block(Acc& acc, const C* x, int n, std::int64_t) const {
    Product lane[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    std::int64_t zeros = 0;
    int i = 0;
    for (; i + 8 <= n; i += 8)
      for (int j = 0; j < 8; ++j) {
        const bool zero = x[i + j] == 0;
        lane[j] *= zero ? Product{1} : static_cast<Product>(x[i + j]);
        zeros += zero;
      }
    for (; i < n; ++i) {
      const bool zero = x[i] == 0;
      lane[0] *= zero ? Product{1} : static_cast<Product>(x[i]);
      zeros += zero;
    }
    for (int half = 4; half > 0; half /= 2)
      for (int j = 0; j < half; ++j) lane[j] *= lane[j + half];
    acc.product *= lane[0];
    acc.zeros += zeros;
  }
  void lanes(Acc* acc, const C* x, int n, std::int64_t) const {
    for (int j = 0; j < n; ++j) {
      const bool zero = x[j] == 0;
      acc[j].product *= zero ? Product{1} : static_cast<Product>(x[j]);
      acc[j].zeros += zero;
    }
  }
  void merge(Acc& acc, const Acc& later) const {
    acc.product *= later.product;
    acc.zeros += later.zeros;
  }
  void finish(const Acc& acc, C& value, Second& zeros) const {
    // Times zero rather than zero: a NaN or an infinity among the factors must show.
    const Product whole = acc.zeros > 0 && !skip_zeros ? acc.product * 0 : acc.product;
    value = static_cast<C>(whole);
    zeros = static_cast<C>(acc.zeros);
  }
};

}  // namespace ct::reduction

#pragma GCC diagnostic pop
