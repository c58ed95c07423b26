#include <cotangent/ops/loss/bce_with_logits_internal.h>
#include <cotangent/ops/loss/loss_cuda.cuh>

namespace ct {
namespace {

template <class T>
struct Cycle {
  const T* values = nullptr;
  long long period = 1;

  explicit Cycle(const CyclicWeight& w)
      : values(w.values.defined() ? w.values.data<T>() : nullptr), period(w.period) {}

  __device__ __forceinline__ compute_t<T> operator()(long long i) const {
    return values ? gpu::to_compute(values[period == 1 ? 0 : i % period]) : compute_t<T>(1);
  }
};

// The formulas are derived in the README and stand, with their reasons, in bce_with_logits_cpu.cpp.
template <class T>
struct Bce {
  using C = compute_t<T>;
  Cycle<T> weight, pos_weight;

  __device__ __forceinline__ C value(long long i, C x, C t) const {
    const C low = log1p(exp(-fabs(x)));
    const C positive = (x > C(0) ? x : C(0)) + low, negative = (x > C(0) ? C(0) : -x) + low;
    return weight(i) * (pos_weight(i) * t * negative + (C(1) - t) * positive);
  }
  __device__ __forceinline__ void gradient(long long i, C x, C t, C& dx, C& dt) const {
    const C w = weight(i), p = pos_weight(i);
    const C e = exp(-fabs(x));
    const C big = C(1) / (C(1) + e), small = e * big;
    const C s = x > C(0) ? big : small, r = x > C(0) ? small : big;
    dx = w * ((C(1) - t) * s - p * t * r);
    const C low = log1p(e);
    const C positive = (x > C(0) ? x : C(0)) + low, negative = (x > C(0) ? C(0) : -x) + low;
    dt = w * (p * negative - positive);
  }
};

template <class T>
Bce<T> formula(const CyclicWeight& weight, const CyclicWeight& pos_weight) {
  return {Cycle<T>(weight), Cycle<T>(pos_weight)};
}

}  // namespace

void bce_with_logits_forward_cuda(const Forward& f) {
  const Tensor &x = f.in(0), &t = f.in(1);
  const CyclicWeight weight(f.in(2), x.shape()), pos_weight(f.in(3), x.shape());
  visit_floating("bce_with_logits", x.dtype(), [&]<class T>(TypeTag<T>) {
    loss::pointwise_forward("bce_with_logits", x.data<T>(), t.data<T>(), x.numel(),
                            f.attrs<BceWithLogitsAttrs>().reduction, f.out().data<T>(),
                            formula<T>(weight, pos_weight));
  });
}

void bce_with_logits_backward_cuda(const Backward& b) {
  const Tensor &x = b.in(0), &t = b.in(1), &g = b.grad();
  const CyclicWeight weight(b.saved_inputs[2], x.shape()), pos_weight(b.saved_inputs[3], x.shape());
  visit_floating("bce_with_logits", x.dtype(), [&]<class T>(TypeTag<T>) {
    loss::pointwise_backward("bce_with_logits", x.data<T>(), t.data<T>(), g.data<T>(), x.numel(),
                             b.attrs<BceWithLogitsAttrs>().reduction,
                             b.needs(0) ? b.grad_in(0).data<T>() : nullptr,
                             b.needs(1) ? b.grad_in(1).data<T>() : nullptr, formula<T>(weight, pos_weight));
  });
}

}  // namespace ct

CT_KERNELS(cuda, bce_with_logits,
           {"bce_with_logits", bce_with_logits_forward_cuda, bce_with_logits_backward_cuda})
