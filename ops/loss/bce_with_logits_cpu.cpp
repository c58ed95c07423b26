#include <cotangent/ops/loss/bce_with_logits_internal.h>
#include <cotangent/ops/loss/loss_cpu.h>

namespace ct {
namespace {

template <class T>
struct Cycle {
  const T* values = nullptr;
  std::int64_t period = 1;

  explicit Cycle(const CyclicWeight& w)
      : values(w.values.defined() ? w.values.data<T>() : nullptr), period(w.period) {}

  CT_INLINE loss::Pack<T> operator()(std::int64_t i, int count) const {
    using P = loss::Pack<T>;
    if (!values) return P(1);
    if (period == 1) return P(static_cast<compute_t<T>>(values[0]));
    if (i % period + count <= period) return loss::load(values + i % period, count);
    P p(0);
    for (int lane = 0; lane < count; ++lane) p.v[lane] = values[(i + lane) % period];
    return p;
  }
};

// With s = sigmoid(x), softplus'(x) = s and sigmoid(-x) = 1 - s:
//     dx = g w ((1 - t) s - p t (1 - s)),    dt = g w (p softplus(-x) - softplus(x)).
// s and 1 - s are both made from e^-|x|, so neither is a difference of nearly equal numbers.
template <class T>
struct Bce {
  using P = loss::Pack<T>;
  static constexpr std::int64_t grain = 4096;
  Cycle<T> weight, pos_weight;

  CT_INLINE P value(std::int64_t i, int count, P x, P t) const {
    const P low = log1p(exp(-abs(x)));  // softplus(-|x|)
    const P positive = where(x > P(0), x, P(0)) + low, negative = where(x > P(0), P(0), -x) + low;
    return weight(i, count) * (pos_weight(i, count) * t * negative + (P(1) - t) * positive);
  }
  CT_INLINE void gradient(std::int64_t i, int count, P x, P t, P& dx, P& dt) const {
    const P w = weight(i, count), p = pos_weight(i, count);
    const P e = exp(-abs(x));
    const P big = P(1) / (P(1) + e), small = e * big;  // sigmoid(|x|), sigmoid(-|x|)
    const P s = where(x > P(0), big, small), r = where(x > P(0), small, big);
    dx = w * ((P(1) - t) * s - p * t * r);
    const P low = log1p(e);
    const P positive = where(x > P(0), x, P(0)) + low, negative = where(x > P(0), P(0), -x) + low;
    dt = w * (p * negative - positive);
  }
};

template <class T>
Bce<T> formula(const CyclicWeight& weight, const CyclicWeight& pos_weight) {
  return {Cycle<T>(weight), Cycle<T>(pos_weight)};
}

}  // namespace

void bce_with_logits_forward_cpu(const Forward& f) {
  const Tensor &x = f.in(0), &t = f.in(1);
  const CyclicWeight weight(f.in(2), x.shape()), pos_weight(f.in(3), x.shape());
  visit_fast("bce_with_logits", x.dtype(), [&]<class T>(TypeTag<T>) {
    loss::pointwise_forward(x.data<T>(), t.data<T>(), x.numel(), f.attrs<BceWithLogitsAttrs>().reduction,
                            f.out().data<T>(), formula<T>(weight, pos_weight));
  });
}

void bce_with_logits_backward_cpu(const Backward& b) {
  const Tensor &x = b.in(0), &t = b.in(1), &g = b.grad();
  const CyclicWeight weight(b.saved_inputs[2], x.shape()), pos_weight(b.saved_inputs[3], x.shape());
  visit_fast("bce_with_logits", x.dtype(), [&]<class T>(TypeTag<T>) {
    loss::pointwise_backward(x.data<T>(), t.data<T>(), g.data<T>(), x.numel(),
                             b.attrs<BceWithLogitsAttrs>().reduction,
                             b.needs(0) ? b.grad_in(0).data<T>() : nullptr,
                             b.needs(1) ? b.grad_in(1).data<T>() : nullptr, formula<T>(weight, pos_weight));
  });
}

}  // namespace ct

CT_KERNELS(cpu, bce_with_logits,
           {"bce_with_logits", bce_with_logits_forward_cpu, bce_with_logits_backward_cpu})
