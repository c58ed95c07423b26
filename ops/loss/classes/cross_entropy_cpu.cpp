#include <algorithm>
#include <cmath>
#include <cstring>

#include <cotangent/core/simd/exp_nonpositive.h>
#include <cotangent/ops/engine/rows/record.h>
#include <cotangent/ops/engine/rows/rows_cpu.h>
#include <cotangent/ops/loss/classes/cross_entropy_rows_internal.h>
#include <cotangent/ops/loss/largest_cpu.h>
#include <cotangent/ops/loss/loss_cpu.h>
#include <cotangent/ops/loss/ordered_sum_internal.h>

// Forward goes over a row twice, in cache: its maximum, then sum_c e^(x[c] - max) with the sums that
// smoothing and distributions need. Backward goes over it once. Lanes of a vector are neighbouring classes
// where those are neighbours in memory, else neighbouring rows; each lane's sums have a fixed order either
// way.

namespace ct {
namespace {

using rows::Passes;

// p with zeros in place of the lanes from `count` on.
template <class P>
CT_INLINE P first_lanes(P p, int count) {
  P index(0);
  for (int i = 0; i < P::kSize; ++i) index.v[i] = static_cast<typename P::Scalar>(i);
  return where(index < P(count), p, P(0));
}

template <class T, Target kTarget>
struct CrossEntropy : CrossEntropyRows<T, kTarget> {
  using Rows = CrossEntropyRows<T, kTarget>;
  using P = loss::Vector<T>;
  using C = compute_t<T>;
  using Rows::divisor, Rows::extra, Rows::ignore_index, Rows::kLabels, Rows::labels, Rows::layout,
      Rows::log_sum, Rows::rest, Rows::share, Rows::smoothing, Rows::stats, Rows::weight, Rows::x, Rows::t;

  std::int64_t grain() const {
    return std::max<std::int64_t>(1, loss::kRowGrain / (kTarget == Target::picked ? 1 : layout.classes));
  }
  bool counts(std::int64_t r) const { return !kLabels || labels[r] != ignore_index; }
  C weight_of(std::int64_t c) const { return weight ? static_cast<C>(weight[c]) : C(1); }
  std::int64_t place(std::int64_t r, std::int64_t c) const { return layout.start(r) + c * layout.inner; }

  // The factor of lse - x[c] in a row's loss, apart from the label's: w[c] for labels (to be multiplied by
  // share()), w[c] t[c] with t smoothed for distributions. `at` is the element's index. Lanes are classes
  // from c on, or rows.
  CT_INLINE P factor(std::int64_t c, std::int64_t at, int count, bool lanes_are_classes) const {
    P w(1);
    if (weight) w = lanes_are_classes ? loss::load(weight + c, count) : P(static_cast<C>(weight[c]));
    if constexpr (kLabels) return w;
    return w * (P(C(1) - smoothing) * loss::load(t + at, count) + P(share()));
  }

  // Result of the second pass over a row, with x measured from the row's maximum.
  struct Sums {
    C max, exps, dot, mass;  // max_c x, sum_c e^x, sum_c factor x, sum_c factor
  };
  loss::WeightedSum finish(std::int64_t r, const Sums& s, T* each) const {
    if (!counts(r)) {
      log_sum(r) = rest(r) = C(0);
      if (each) each[r] = T(C(0));
      return {};
    }
    const C log_exps = std::log(s.exps);
    loss::exact_sum(s.max, log_exps, log_sum(r), rest(r));
    C value = 0, w = 1;
    if constexpr (kLabels) {
      const std::int64_t t = labels[r];
      w = weight_of(t);
      value = w * (log_exps - (static_cast<C>(x[place(r, t)]) - s.max));
      if (kTarget == Target::smoothed)
        value = (C(1) - smoothing) * value + share() * (s.mass * log_exps - s.dot);
    } else {
      value = s.mass * log_exps - s.dot;
      extra(r) = s.mass;
    }
    if (each) each[r] = T(value);
    return {value, w};
  }

  Sums sums_of_row(std::int64_t r) const {  // inner == 1
    const std::int64_t n = layout.classes, begin = r * n;
    const T* row = x + begin;
    const C max = loss::largest<P>(row, n);
    P exps(0), others(0), dot(0), mass(0);
    const auto add = [&](std::int64_t c, int count) {
      const auto inside = [&](P p) {
        if (count != P::kSize) p = first_lanes(p, count);
        return p;
      };
      const P v = loss::load(row + c, count) - P(max);
      exps = exps + inside(simd::exp_nonpositive_for<T>(v));
      if constexpr (kTarget != Target::label) {
        const P f = factor(c, begin + c, count, true);
        dot = dot + inside(f * v);
        mass = mass + inside(f);
      }
    };
    std::int64_t c = 0;
    if constexpr (kTarget == Target::label) {  // for which the order of classes does not matter
      c = simd::for_pairs<P>(0, n, [&](std::int64_t c) {
        P v, u;
        P::load_pair(row + c, v, u);
        exps += simd::exp_nonpositive_for<T>(v - max), others += simd::exp_nonpositive_for<T>(u - max);
      });
      exps += others;
    }
    for (; c + P::kSize <= n; c += P::kSize) add(c, P::kSize);
    if (c < n) add(c, static_cast<int>(n - c));
    Sums s{max, 0, 0, 0};
    for (int i = 0; i < P::kSize; ++i) s.exps += exps.v[i];
    if constexpr (kTarget != Target::label)
      for (int i = 0; i < P::kSize; ++i) s.dot += dot.v[i], s.mass += mass.v[i];
    return s;
  }

  // Rows r, r + 1, ... that are neighbours along the inner axes, one per lane.
  loss::WeightedSum neighbours(std::int64_t r, int count, T* each) const {
    const std::int64_t start = layout.start(r), n = layout.classes, step = layout.inner;
    P top = loss::load(x + start, count);
    for (std::int64_t c = 1; c < n; ++c) {
      const P v = loss::load(x + start + c * step, count);
      top = where(v > top, v, top);
    }
    P exps(0), dot(0), mass(0);
    for (std::int64_t c = 0; c < n; ++c) {
      const P v = loss::load(x + start + c * step, count) - top;
      exps = exps + simd::exp_nonpositive_for<T>(v);
      if constexpr (kTarget != Target::label) {
        const P f = factor(c, start + c * step, count, false);
        dot = dot + f * v;
        mass = mass + f;
      }
    }
    loss::WeightedSum sum;
    for (int i = 0; i < count; ++i) sum += finish(r + i, {top.v[i], exps.v[i], dot.v[i], mass.v[i]}, each);
    return sum;
  }

  // Rows of log-probabilities, in f64.
  loss::WeightedSum pick(std::int64_t begin, std::int64_t end, T* each) const {
    loss::WeightedSum sum;
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t label = labels[r];
      double value = 0;
      if (label != ignore_index) {
        const double w = weight_of(label);
        value = -w * static_cast<C>(x[place(r, label)]);
        sum += {value, w};
      }
      if (each) each[r] = T(static_cast<C>(value));
    }
    return sum;
  }

  loss::WeightedSum sum_of(std::int64_t begin, std::int64_t end, T* each) const {
    if constexpr (kTarget == Target::picked) {
      return pick(begin, end, each);
    } else {
      loss::WeightedSum part;
      for (std::int64_t r = begin; r < end;) {
        const int count = lanes(r, end);
        part += layout.inner == 1 ? finish(r, sums_of_row(r), each) : neighbours(r, count, each);
        r += count;
      }
      return part;
    }
  }

  void forward(Reduction reduction, T* out, const Passes* passes) const {
    T* each = reduction == Reduction::none ? out : nullptr;
    if (kLabels && kTarget != Target::picked) extra(0) = 0;
    if (kTarget == Target::smoothed)
      for (std::int64_t c = 0; c < layout.classes; ++c) extra(0) += weight_of(c);
    const loss::WeightedSum sum =
        loss::ordered_sum(layout.rows(), grain(), [&](std::int64_t begin, std::int64_t end) {
          if (!passes) return sum_of(begin, end, each);
          CrossEntropy made = *this;
          made.x = static_cast<const T*>(passes->load(begin * layout.classes, end * layout.classes));
          return made.sum_of(begin, end, each);
        });
    const double by = reduction == Reduction::mean ? loss::mean_divisor(sum.weight) : 1;
    if (stats) divisor() = static_cast<C>(by);
    if (reduction != Reduction::none) *out = T(static_cast<C>(sum.loss / by));
  }

  // Number of rows from r on that are computed together.
  int lanes(std::int64_t r, std::int64_t end) const {
    if (layout.inner == 1) return 1;
    return static_cast<int>(std::min<std::int64_t>({P::kSize, end - r, layout.inner - r % layout.inner}));
  }

  // With p = e^(x - lse), the derivative of a row's loss by x[c] is A p[c] - b[c], less (1 - s) w[t] at the
  // label, where b[c] is the factor of lse - x[c] and A the sum of all such factors. Here is A e^(-rest).
  C total_factor(std::int64_t r) const {
    C total = extra(kLabels ? 0 : r);
    if (kTarget == Target::label) total = weight_of(labels[r]);
    if (kTarget == Target::smoothed) total = (C(1) - smoothing) * weight_of(labels[r]) + share() * total;
    return total * std::exp(-rest(r));
  }

  // dx = -g w[t] in class t, 0 elsewhere.
  void picked_gradient(Reduction reduction, const T* g, T* dx) const {
    const bool each = reduction == Reduction::none;
    if (layout.count() == 0) return;
    std::memset(static_cast<void*>(dx), 0, static_cast<std::size_t>(layout.count()) * sizeof(T));
    const double by = stats ? divisor() : 1;
    parallel_for(layout.rows(), grain(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t label = labels[r];
        if (label == ignore_index) continue;
        const double w = weight_of(label), scale = static_cast<C>(g[each ? r : 0]) / by;
        dx[place(r, label)] = T(static_cast<C>(-w * scale));
      }
    });
  }

  void backward(Reduction reduction, const T* g, T* dx, T* dt, const Passes* passes) const {
    const bool each = reduction == Reduction::none;
    parallel_for(layout.rows(), grain(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end;) {
        const int count = lanes(r, end);
        P scale(0), total(0), log_sums(0), rests(0), hits(0);
        for (int i = 0; i < count; ++i) {
          if (!counts(r + i)) continue;
          if constexpr (kLabels) hits.v[i] = static_cast<C>(x[place(r + i, labels[r + i])]);
          scale.v[i] = static_cast<C>(g[each ? r + i : 0]) / divisor();
          total.v[i] = total_factor(r + i);
          log_sums.v[i] = log_sum(r + i);
          rests.v[i] = rest(r + i);
        }
        if (layout.inner == 1) {
          row_gradient(r, scale.v[0], total.v[0], log_sums.v[0], rests.v[0], dx, dt);
        } else {
          for (std::int64_t c = 0; c < layout.classes; ++c)
            elements(c, layout.start(r) + c * layout.inner, count, false, scale, total, log_sums, rests, dx,
                     dt);
        }
        for (int i = 0; i < count; ++i) finish_row(r + i, scale.v[i], total.v[i], hits.v[i], dx);
        r += count;
      }
      if (passes) passes->store(begin * layout.classes, end * layout.classes);
    });
  }

  void row_gradient(std::int64_t r, C scale, C total, C log_sum, C rest, T* dx, T* dt) const {
    std::int64_t c = 0;
    if constexpr (kTarget == Target::label) {
      const T* from = x + r * layout.classes;
      T* to = dx + r * layout.classes;
      const auto of = [&](P v) {
        return P(scale) * (P(total) * simd::exp_nonpositive_for<T>(v - P(log_sum)));
      };
      c = simd::for_pairs<P>(0, layout.classes, [&](std::int64_t c) {
        P v, u;
        P::load_pair(from + c, v, u);
        P::store_pair(of(v), of(u), to + c);
      });
    }
    for (; c < layout.classes; c += P::kSize) {
      const int count = static_cast<int>(std::min<std::int64_t>(P::kSize, layout.classes - c));
      elements(c, r * layout.classes + c, count, true, P(scale), P(total), P(log_sum), P(rest), dx, dt);
    }
  }

  CT_INLINE void elements(std::int64_t c, std::int64_t at, int count, bool lanes_are_classes, P scale,
                          P total, P log_sums, P rests, T* dx, T* dt) const {
    const P v = loss::load(x + at, count) - log_sums;
    if (dx) {
      P d = total * simd::exp_nonpositive_for<T>(v);  // above 0 by rounding at most
      if constexpr (kTarget == Target::smoothed) d = d - P(share()) * factor(c, at, count, lanes_are_classes);
      if constexpr (kTarget == Target::soft) d = d - factor(c, at, count, lanes_are_classes);
      loss::store<T>(dx + at, scale * d, count);
    }
    if (kTarget == Target::soft && dt) {
      P w(1);
      if (weight) w = lanes_are_classes ? loss::load(weight + c, count) : P(static_cast<C>(weight[c]));
      loss::store<T>(dt + at, -(scale * P(C(1) - smoothing) * w * (v - rests)), count);
    }
  }

  // The label's own term, and zeros for a row that does not count (whose sums may be infinite). x_label is
  // the label's logit: dx may have been written over it.
  void finish_row(std::int64_t r, C scale, C total, C x_label, T* dx) const {
    if constexpr (kLabels) {
      T* row = dx + layout.start(r);
      const std::int64_t step = layout.inner, t = labels[r];
      if (t == ignore_index) {
        for (std::int64_t c = 0; c < layout.classes; ++c) row[c * step] = T(C(0));
        return;
      }
      const C hit = (kTarget == Target::smoothed ? C(1) - smoothing : C(1)) * weight_of(t);
      if constexpr (std::is_same_v<T, C>) {
        row[t * step] -= scale * hit;
      } else {  // from the start, so that it is rounded once
        C d = total * std::exp(x_label - log_sum(r)) - hit;
        if (kTarget == Target::smoothed) d -= share() * weight_of(t);
        row[t * step] = T(scale * d);
      }
    }
  }
};

template <Target kTarget>
void run_forward(const Forward& f, const Passes* passes) {
  if (kTarget != Target::soft)
    loss::check_label_values(f.op.name, loss::Labels(f.in(1)), loss::ClassLayout(f.in(0).shape()),
                             class_attrs<kTarget>(f).ignore_index);
  loss::classes::forward<kTarget>(
      f, [&]<class T, Target k>(const CrossEntropyRows<T, k>& rows, Reduction reduction, T* out) {
        CrossEntropy<T, k>{rows}.forward(reduction, out, passes);
      });
}

template <Target kTarget>
void run_backward(const Backward& b, const Passes* passes) {
  loss::classes::backward<kTarget>(b, [&]<class T, Target k>(const CrossEntropyRows<T, k>& rows,
                                                             Reduction reduction, const T* g, T* dx, T* dt) {
    if constexpr (k == Target::picked)
      CrossEntropy<T, k>{rows}.picked_gradient(reduction, g, dx);
    else
      CrossEntropy<T, k>{rows}.backward(reduction, g, dx, dt, passes);
  });
}

template <Target kTarget>
void forward_cpu(const Forward& f) {
  run_forward<kTarget>(f, nullptr);
}
template <Target kTarget>
void backward_cpu(const Backward& b) {
  run_backward<kTarget>(b, nullptr);
}

// Classes that are neighbours in memory.
int class_axes(AttrsView, const Shape& x) {
  return loss::ClassLayout(x).inner == 1 ? rows::RowRecord::kWhole : 0;
}

template <Target kTarget>
constexpr rows::RowRecord kClassRows{
    .axes = class_axes,
    .shared = ~1u,
    .forward_within = [](const Forward& f, const Passes& p) { run_forward<kTarget>(f, &p); },
    .backward_within = [](const Backward& b, const Passes& p) { run_backward<kTarget>(b, &p); }};

constexpr rows::RowRecord kWithGradientRows{
    .axes = class_axes,
    .shared = ~1u,
    .backward = false,
    .forward_within =
        [](const Forward& f, const Passes& p) {
          cross_entropy_in_two(
              f, [&](const Forward& first) { run_forward<Target::label>(first, &p); },
              [&](const Backward& then) { run_backward<Target::label>(then, &p); });
        },
    .stored = 2,
    .reads_twice = true};

}  // namespace
}  // namespace ct

CT_KERNELS(cpu, cross_entropy, {"cross_entropy", forward_cpu<Target::label>, backward_cpu<Target::label>},
           {"cross_entropy_soft", forward_cpu<Target::soft>, backward_cpu<Target::soft>},
           {"nll_loss", forward_cpu<Target::picked>, backward_cpu<Target::picked>},
           forward_only("cross_entropy rows", hand_out<kClassRows<Target::label>>),
           forward_only("cross_entropy_soft rows", hand_out<kClassRows<Target::soft>>),
           forward_only("cross_entropy_with_gradient rows", hand_out<kWithGradientRows>))
