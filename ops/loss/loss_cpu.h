#pragma once

#include <cotangent/core/op_def.h>
#include <cotangent/core/parallel.h>
#include <cotangent/core/simd/convert_run.h>
#include <cotangent/ops/engine/map/math_cpu.h>
#include <cotangent/ops/loss/ordered_sum_internal.h>
#include <cotangent/ops/loss/reduction.h>

// Losses that compare two tensors element by element (mse, bce_with_logits), on the CPU. A loss is a formula
// on packs of the compute type:
//
//     struct Formula {
//       static constexpr std::int64_t grain;  // elements worth a task
//       // The losses of elements i, i + 1, ... of x and the target t, and their derivatives.
//       Pack value(std::int64_t i, int count, Pack x, Pack t) const;
//       void gradient(std::int64_t i, int count, Pack x, Pack t, Pack& dx, Pack& dt) const;
//     };
//
// Lanes from `count` on are padding: they may hold anything and are dropped.

namespace ct::loss {

template <class T>
using Pack = elementwise::Pack<compute_t<T>>;

/// `count` elements in the compute type; the lanes after them are 0.
template <class T>
CT_INLINE Pack<T> load(const T* from, int count) {
  using P = Pack<T>;
  using C = compute_t<T>;
  if constexpr (std::is_same_v<T, C>) {
    return count == P::kSize ? P::load(from) : elementwise::load_first(from, count);
  } else {
    C lanes[P::kSize] = {};
    widen_run(from, count, lanes);
    return P::load(lanes);
  }
}

template <class T>
CT_INLINE void store(T* to, Pack<T> p, int count) {
  using P = Pack<T>;
  using C = compute_t<T>;
  if constexpr (std::is_same_v<T, C>) {
    if (count == P::kSize)
      p.store(to);
    else
      elementwise::store_first(to, p, count);
  } else {
    C lanes[P::kSize];
    p.store(lanes);
    narrow_run(lanes, count, to);
  }
}

/// The sum of the first `count` lanes, in f64.
template <class C>
CT_INLINE double lane_sum(elementwise::Pack<C> p, int count) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += p.v[i];
  return sum;
}

template <class T, class F>
void pointwise_forward(const T* x, const T* t, std::int64_t n, Reduction reduction, T* out, const F& f) {
  using P = Pack<T>;
  if (reduction == Reduction::none) {
    parallel_for(n, F::grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; i += P::kSize) {
        const int count = static_cast<int>(std::min<std::int64_t>(P::kSize, end - i));
        store<T>(out + i, f.value(i, count, load(x + i, count), load(t + i, count)), count);
      }
    });
    return;
  }
  // Lanes add up over short runs in the compute type, runs in f64.
  constexpr std::int64_t kRun = 64 * P::kSize;
  const double sum = ordered_sum(n, F::grain, [&](std::int64_t begin, std::int64_t end) {
    double total = 0;
    for (std::int64_t i = begin; i < end;) {
      P lanes(0);
      const std::int64_t stop = std::min(i + kRun, end);
      for (; i + P::kSize <= stop; i += P::kSize)
        lanes = lanes + f.value(i, P::kSize, load(x + i, P::kSize), load(t + i, P::kSize));
      total += lane_sum(lanes, P::kSize);
      if (i < stop) {
        const int count = static_cast<int>(stop - i);
        total += lane_sum(f.value(i, count, load(x + i, count), load(t + i, count)), count);
        i = stop;
      }
    }
    return total;
  });
  *out = static_cast<T>(
      static_cast<compute_t<T>>(reduction == Reduction::mean ? sum / static_cast<double>(n) : sum));
}

/// `g` holds one cotangent per element for Reduction::none, else a single one. dx or dt may be null.
template <class T, class F>
void pointwise_backward(const T* x, const T* t, const T* g, std::int64_t n, Reduction reduction, T* dx, T* dt,
                        const F& f) {
  using P = Pack<T>;
  using C = compute_t<T>;
  const bool each = reduction == Reduction::none;
  const C common = each || n == 0
                       ? C(0)
                       : static_cast<C>(static_cast<C>(*g) /
                                        (reduction == Reduction::mean ? static_cast<double>(n) : 1.0));
  parallel_for(n, F::grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += P::kSize) {
      const int count = static_cast<int>(std::min<std::int64_t>(P::kSize, end - i));
      const P scale = each ? load(g + i, count) : P(common);
      P px, pt;
      f.gradient(i, count, load(x + i, count), load(t + i, count), px, pt);
      if (dx) store<T>(dx + i, scale * px, count);
      if (dt) store<T>(dt + i, scale * pt, count);
    }
  });
}

}  // namespace ct::loss
