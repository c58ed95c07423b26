#pragma once

#include <cstdint>
#include <type_traits>

#include <cotangent/core/cuda/math.h>
#include <cotangent/ops/engine/fold/products.h>
#include <cotangent/ops/engine/fold/scaled.h>
#include <cotangent/ops/engine/fold/sum_fold_cuda.cuh>

// The arithmetic of the other reductions on CUDA; the same on the CPU: engine/fold/product_fold_cpu.h,
// engine/fold/order_folds_cpu.h and engine/fold/statistic_folds_cpu.h.

namespace ct::fold {

/// The p-norm for finite p; see PowerSum.
template <class Element>
struct NormFold {
  using C = Element;
  using Acc = PowerSum<C>;
  using Second = char;

  Powers<C> powers;

  __device__ Acc identity() const { return {}; }
  template <int N>
  __device__ void add(Acc& acc, const C (&x)[N], std::int64_t) const {
    C t[N];  // p is the same for all threads: no divergence
#pragma unroll
    for (int i = 0; i < N; ++i) t[i] = powers.power(x[i] < 0 ? -x[i] : x[i]);
    const C sum = tree(t, Plus{});
    const bool fits = powers.p == 1 || powers.p == 0 || Powers<C>::in_range(sum);
    powers.merge(acc, fits ? Acc{sum, 1} : powers.scaled(x, N));
  }
  __device__ void merge(Acc& acc, const Acc& other) const { powers.merge(acc, other); }
  __device__ void finish(const Acc& acc, C& value, Second&) const { value = powers.root(acc); }
};

/// The product; see Product. The second result, and with `side` the first, are those of OtherFactors.
template <class Element>
struct ProdFold {
  using C = Element;
  static constexpr bool kInteger = std::is_integral_v<C>;
  using Acc = std::conditional_t<kInteger, C, Product<C>>;
  using Second = C;

  bool side = false;

  __device__ Acc identity() const {
    if constexpr (kInteger) {
      return 1;
    } else {
      return {};
    }
  }
  template <int N>
  __device__ void add(Acc& acc, const C (&x)[N], std::int64_t) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (kInteger) {
        acc *= x[i];
      } else {
        acc.take(x[i]);
      }
    }
    if constexpr (!kInteger) acc.normalize();
  }
  __device__ void merge(Acc& acc, const Acc& other) const {
    if constexpr (kInteger) {
      acc *= other;
    } else {
      acc.merge(other);
    }
  }
  __device__ void finish(const Acc& acc, C& value, Second& aux) const {
    if constexpr (kInteger) {
      value = acc;
    } else {
      const auto others = OtherFactors<C>::of(acc);
      value = side ? others.y : acc.value();
      aux = others.aux;
    }
  }
};

// ---- folds that compare: upwards, minima by turning elements around ----

enum class Compare : int { value, absolute, truth };

template <class C>
struct Ordering {
  Compare compare = Compare::value;
  bool smallest = false;

  __device__ C lowest() const {
    if (compare == Compare::truth) return smallest ? turned(C(1)) : C(0);
    if (compare == Compare::absolute && !smallest) return C(0);
    if constexpr (std::is_integral_v<C>) {
      return static_cast<C>(std::uint64_t{1} << 63);
    } else {
      return -static_cast<C>(INFINITY);
    }
  }
  __device__ C key(C x) const {
    if (compare == Compare::truth) x = x != 0 ? C(1) : C(0);
    if (compare == Compare::absolute && x < 0) x = -x;
    return smallest ? turned(x) : x;
  }
  __device__ C value(C key) const { return smallest ? turned(key) : key; }
  static __device__ C turned(C x) {
    if constexpr (std::is_integral_v<C>) {
      return ~x;
    } else {
      return -x;
    }
  }
  static __device__ bool same(C a, C b) { return a == b || (a != a && b != b); }
  static __device__ bool larger(C a, C b) { return a > b || (a != a && b == b); }
};

struct Larger {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return b > a || b != b ? b : a;
  }
};

template <class Element>
struct ExtremumFold {
  using C = Element;
  using Acc = C;
  using Second = char;

  Ordering<C> order;

  __device__ Acc identity() const { return order.lowest(); }
  template <int N>
  __device__ void add(Acc& acc, const C (&x)[N], std::int64_t) const {
    C keys[N];
#pragma unroll
    for (int i = 0; i < N; ++i) keys[i] = order.key(x[i]);
    acc = Larger{}(acc, tree(keys, Larger{}));
  }
  __device__ void merge(Acc& acc, const Acc& other) const { acc = Larger{}(acc, other); }
  __device__ void finish(const Acc& acc, C& value, Second&) const { value = order.value(acc); }
};

template <class Element>
struct TiesFold {
  using C = Element;
  struct Acc {
    C key;
    C ties;
  };
  using Second = C;

  Ordering<C> order;

  __device__ Acc identity() const { return {order.lowest(), 0}; }
  template <int N>
  __device__ void add(Acc& acc, const C (&x)[N], std::int64_t) const {
#pragma unroll
    for (int i = 0; i < N; ++i) merge(acc, {order.key(x[i]), 1});
  }
  __device__ void merge(Acc& acc, const Acc& other) const {
    if (order.same(acc.key, other.key)) {
      acc.ties += other.ties;
    } else if (order.larger(other.key, acc.key)) {
      acc = other;
    }
  }
  __device__ void finish(const Acc& acc, C& value, Second& ties) const {
    value = order.value(acc.key);
    ties = acc.ties;
  }
};

template <class Element>
struct PositionFold {
  using C = Element;
  struct Acc {
    std::int64_t index;  // -1: none yet
    C key;
  };
  using Second = std::int64_t;

  Ordering<C> order;

  __device__ Acc identity() const { return {-1, order.lowest()}; }
  template <int N>
  __device__ void add(Acc& acc, const C (&x)[N], std::int64_t index) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const C key = order.key(x[i]);
      if (acc.index < 0 || order.larger(key, acc.key)) acc = {index + i, key};
    }
  }
  __device__ void merge(Acc& acc, const Acc& other) const {
    if (other.index < 0) return;
    const bool earlier = order.same(other.key, acc.key) && other.index < acc.index;
    if (acc.index < 0 || earlier || order.larger(other.key, acc.key)) acc = other;
  }
  __device__ void finish(const Acc& acc, C& value, Second& index) const {
    value = order.value(acc.key);
    index = acc.index;
  }
};

// ---- folds that carry two numbers ----

/// Variance, standard deviation; see Deviations.
template <class Element>
struct VarFold {
  using C = Element;
  using Acc = Moments<C>;
  using Second = C;

  Deviations<C> deviations;

  __device__ Acc identity() const { return {}; }
  template <int N>
  __device__ void add(Acc& acc, const C (&x)[N], std::int64_t) const {
    const C mean = tree(x, Plus{}) * (C(1) / N);
    C from_mean[N], squares[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      from_mean[i] = x[i] - mean;
      squares[i] = from_mean[i] * from_mean[i];
    }
    merge(acc, {C(N), mean, deviations.squares(N > 1 ? tree(squares, Plus{}) : squares[0], from_mean, N)});
  }
  __device__ void merge(Acc& acc, const Acc& other) const { deviations.merge(acc, other); }
  __device__ void finish(const Acc& acc, C& value, Second& mean) const {
    value = deviations.result(acc);
    mean = acc.n > 0 ? acc.mean : C(NAN);
  }
};

template <class Element>
struct LogSumExpFold {
  using C = Element;
  struct Acc {
    C max, sum;
  };
  struct Second {
    C max, log_sum;
  };

  __device__ Acc identity() const { return {-static_cast<C>(INFINITY), 0}; }
  static __device__ C shift(C max) { return isinf(max) ? C(0) : max; }

  template <int N>
  __device__ void add(Acc& acc, const C (&x)[N], std::int64_t) const {
    const C max = tree(x, [](C a, C b) { return b > a ? b : a; });
    const C largest = max > acc.max ? max : acc.max, by = shift(largest);
    C e[N];
#pragma unroll
    for (int i = 0; i < N; ++i) e[i] = gpu::exp_full(x[i] - by);
    acc.sum = scaled(acc, by) + tree(e, Plus{});
    acc.max = largest;
  }
  __device__ void merge(Acc& acc, const Acc& other) const {
    const C max = other.max > acc.max ? other.max : acc.max, by = shift(max);
    acc.sum = scaled(acc, by) + scaled(other, by);
    acc.max = max;
  }
  __device__ void finish(const Acc& acc, C& value, Second& terms) const {
    const C log_sum = log(acc.sum);
    value = log_sum + shift(acc.max);
    terms = {acc.max, acc.max == identity().max && acc.sum == 0 ? C(0) : log_sum};
  }

 private:
  static __device__ C scaled(const Acc& acc, C by) {
    const bool nothing = acc.max == -static_cast<C>(INFINITY);
    return nothing ? acc.sum : acc.sum * gpu::exp_full(shift(acc.max) - by);
  }
};

}  // namespace ct::fold
