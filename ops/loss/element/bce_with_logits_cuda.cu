#include <cotangent/ops/loss/element/bce_with_logits_internal.h>
#include <cotangent/ops/loss/element/element_loss_cuda.cuh>

namespace ct::loss::bce {
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

template <class T>
struct Loss {
  Cycle<T> weight, pos_weight;

  template <class X>
  __device__ __forceinline__ X operator()(long long i, X x, X t) const {
    return Bce::eval(x, t, X(weight(i)), X(pos_weight(i)), X(0), X(0));
  }
};

void forward_cuda(const Forward& f) {
  const Shape& shape = f.in(0).shape();
  const CyclicWeight weight(f.in(2), shape), pos_weight(f.in(3), shape);
  loss::forward_cuda<Bce>(f, f.attrs<BceWithLogitsAttrs>().reduction, [&]<class T>(TypeTag<T>) {
    return Loss<T>{Cycle<T>(weight), Cycle<T>(pos_weight)};
  });
}
void backward_cuda(const Backward& b) {
  loss::backward_cuda<BceGradients>(b, b.attrs<BceWithLogitsAttrs>().reduction);
}

}  // namespace
}  // namespace ct::loss::bce

CT_KERNELS(cuda, bce_with_logits, {"bce_with_logits", loss::bce::forward_cuda, loss::bce::backward_cuda})
