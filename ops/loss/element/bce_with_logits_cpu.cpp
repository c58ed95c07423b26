#include <cotangent/ops/loss/element/bce_with_logits_internal.h>
#include <cotangent/ops/loss/element/element_loss_cpu.h>

namespace ct::loss::bce {
namespace {

template <class T>
struct Cycle {
  const T* values = nullptr;
  std::int64_t period = 1;

  explicit Cycle(const CyclicWeight& w)
      : values(w.values.defined() ? w.values.data<T>() : nullptr), period(w.period) {}

  CT_INLINE loss::Vector<T> operator()(std::int64_t i, int count) const {
    using P = loss::Vector<T>;
    if (!values) return P(1);
    if (period == 1) return P(static_cast<compute_t<T>>(values[0]));
    if (i % period + count <= period) return loss::load(values + i % period, count);
    P p(0);
    for (int lane = 0; lane < count; ++lane) p.v[lane] = values[(i + lane) % period];
    return p;
  }
};

template <class T>
struct Loss {
  Cycle<T> weight, pos_weight;

  CT_INLINE loss::Vector<T> operator()(std::int64_t i, int count, loss::Vector<T> x,
                                       loss::Vector<T> t) const {
    const auto of = softplus_of(x, exp(-abs(x)));
    return weight(i, count) * (pos_weight(i, count) * t * of.negative + (1 - t) * of.positive);
  }
};

void run_forward(const Forward& f, const rows::Passes* passes) {
  const Shape& shape = f.in(0).shape();
  const CyclicWeight weight(f.in(2), shape), pos_weight(f.in(3), shape);
  loss::forward_cpu<Bce>(f, f.attrs<BceWithLogitsAttrs>().reduction, passes, [&]<class T>(TypeTag<T>) {
    return Loss<T>{Cycle<T>(weight), Cycle<T>(pos_weight)};
  });
}
void forward_cpu(const Forward& f) { run_forward(f, nullptr); }
void backward_cpu(const Backward& b) {
  loss::backward_cpu<BceGradients>(b, b.attrs<BceWithLogitsAttrs>().reduction);
}

}  // namespace
}  // namespace ct::loss::bce

CT_KERNELS(cpu, bce_with_logits, {"bce_with_logits", loss::bce::forward_cpu, loss::bce::backward_cpu},
           forward_only("bce_with_logits rows",
                        hand_out<loss::kSummed<BceWithLogitsAttrs, loss::bce::run_forward>>))
