#pragma once

#include <cmath>

#include <cotangent/ops/engine/fold/sum_fold_cpu.h>

// Folds that compare: largest and smallest elements, where they are, how many there are; any and all.
//
// There is one order, upwards: for minima the elements are turned around (-x, or ~x for integers, which has
// no overflow) and back at the end. A NaN counts as larger than everything, whichever way round.

namespace ct::fold {

using simd::where;

/// Compared value: x itself, |x| (norms of order inf), or whether x is not 0 (any, all).
enum class Compare : std::uint8_t { value, absolute, truth };

inline constexpr auto kLarger = [](const auto& a, const auto& b) { return where((b > a) | (b != b), b, a); };

template <class C>
struct Ordering {
  Compare compare = Compare::value;
  bool smallest = false;

  /// The key of "nothing yet". For truth it is the answer for no elements: any is false, all is true.
  C lowest() const {
    if (compare == Compare::truth) return smallest ? turned(C(1)) : C(0);
    if (compare == Compare::absolute && !smallest) return C(0);
    if constexpr (std::is_integral_v<C>) return std::numeric_limits<C>::min();
    return -std::numeric_limits<C>::infinity();
  }
  C key(C x) const {
    return with_key([x](const auto& key) { return key(x); });
  }
  /// Calls body(key), with nothing left to decide inside of its loops.
  template <class Body>
  decltype(auto) with_key(const Body& body) const {
    const auto maybe_turned = [&](auto compared) {
      return smallest ? body([=](C x) { return turned(compared(x)); }) : body(compared);
    };
    if constexpr (!std::is_integral_v<C>)
      if (compare == Compare::absolute) return maybe_turned([](C x) { return std::abs(x); });
    if (compare == Compare::truth) return maybe_turned([](C x) { return x != 0 ? C(1) : C(0); });
    return maybe_turned([](C x) { return x; });
  }
  C value(C key) const { return smallest ? turned(key) : key; }
  /// ~x or -x, of an element or a vector of them.
  template <class X>
  static X turned(const X& x) {
    if constexpr (std::is_integral_v<C>)
      return -1 - x;
    else
      return -x;
  }
  /// The largest key of a block.
  C largest(const C* x, int n) const {
    C keys[kMaxBlock];
    const C* from = x;
    if (compare != Compare::value || smallest) {
      keys_of(x, n, keys);
      from = keys;
    }
    return fold_vectors(from, n, lowest(), kSame, kLarger);
  }
  void keys_of(const C* __restrict x, int n, C* __restrict keys) const {
    with_key([&](const auto& key) {
      for (int i = 0; i < n; ++i) keys[i] = key(x[i]);
    });
  }
  static bool same(C a, C b) { return a == b || (a != a && b != b); }
  static bool larger(C a, C b) { return a > b || (a != a && b == b); }

  static constexpr int kMaxBlock = 512;
};

template <class Element>
struct ExtremumFold {
  using C = Element;
  using Acc = C;
  using Second = char;
  static constexpr bool kPositions = false;

  Ordering<C> order;

  Acc identity() const { return order.lowest(); }
  void block(Acc& acc, const C* x, int n, std::int64_t) const { acc = kLarger(acc, order.largest(x, n)); }
  void lanes(Acc* __restrict acc, const C* __restrict x, int n, std::int64_t) const {
    order.with_key([&](const auto& key) {
      for (int j = 0; j < n; ++j) acc[j] = kLarger(acc[j], key(x[j]));
    });
  }
  bool takes_quads() const { return order.compare == Compare::value; }
  void quad(Acc* __restrict acc, const C* __restrict a, const C* __restrict b, const C* __restrict c,
            const C* __restrict d, int n) const {
    using V = simd::FixedVector<C>;
    const auto fold = [&](const auto& key) {
      const auto larger_of_all = [&](const auto& k, const auto& p, const auto& q, const auto& r,
                                     const auto& s) {
        return kLarger(k, kLarger(kLarger(key(p), key(q)), kLarger(key(r), key(s))));
      };
      int j = 0;
      for (; j + V::kSize <= n; j += V::kSize)
        larger_of_all(V::load(acc + j), V::load(a + j), V::load(b + j), V::load(c + j), V::load(d + j))
            .store(acc + j);
      for (; j < n; ++j) acc[j] = larger_of_all(acc[j], a[j], b[j], c[j], d[j]);
    };
    if (order.smallest) {
      fold([](const auto& x) { return Ordering<C>::turned(x); });
    } else {
      fold(kSame);
    }
  }
  void merge(Acc& acc, const Acc& later) const { acc = kLarger(acc, later); }
  void finish(const Acc& acc, C& value, Second&) const { value = order.value(acc); }
};

/// Number of elements as large as the largest, which share the gradient.
template <class Element>
struct TiesFold {
  using C = Element;
  struct Acc {
    C key;
    std::int64_t ties;
  };
  using Second = C;
  static constexpr bool kPositions = false;

  Ordering<C> order;

  Acc identity() const { return {order.lowest(), 0}; }
  void block(Acc& acc, const C* x, int n, std::int64_t) const {
    C keys[Ordering<C>::kMaxBlock];
    order.keys_of(x, n, keys);
    const C largest = fold_vectors(keys, n, order.lowest(), kSame, kLarger);
    std::int64_t ties = 0;
    for (int i = 0; i < n; ++i) ties += order.same(keys[i], largest);
    merge(acc, {largest, ties});
  }
  void lanes(Acc* acc, const C* x, int n, std::int64_t) const {
    for (int j = 0; j < n; ++j) merge(acc[j], {order.key(x[j]), 1});
  }
  void merge(Acc& acc, const Acc& later) const {
    if (order.same(acc.key, later.key)) {
      acc.ties += later.ties;
    } else if (order.larger(later.key, acc.key)) {
      acc = later;
    }
  }
  void finish(const Acc& acc, C& value, Second& ties) const {
    value = order.value(acc.key);
    ties = static_cast<C>(acc.ties);
  }
};

/// The first largest element and its number.
template <class Element>
struct PositionFold {
  using C = Element;
  struct Acc {
    C key;
    std::int64_t index;  // -1: none yet
  };
  using Second = std::int64_t;
  static constexpr bool kPositions = true;

  Ordering<C> order;

  Acc identity() const { return {order.lowest(), -1}; }
  void block(Acc& acc, const C* x, int n, std::int64_t index) const {
    const C largest = order.largest(x, n);
    if (acc.index >= 0 && !order.larger(largest, acc.key)) return;
    const C wanted = order.value(largest);
    int i = 0;
    for (int hits = 0; i + 64 <= n; i += 64) {  // vectors say which 64 it is among
      for (int j = 0; j < 64; ++j) hits += order.same(x[i + j], wanted);
      if (hits > 0) break;
    }
    while (!order.same(x[i], wanted)) ++i;
    acc = {largest, index + i};
  }
  void lanes(Acc* acc, const C* x, int n, std::int64_t index) const {
    for (int j = 0; j < n; ++j) merge(acc[j], {order.key(x[j]), index});
  }
  void merge(Acc& acc, const Acc& later) const {
    if (acc.index < 0 || order.larger(later.key, acc.key)) acc = later;
  }
  void finish(const Acc& acc, C& value, Second& index) const {
    value = order.value(acc.key);
    index = acc.index;
  }
};

}  // namespace ct::fold
