#pragma once

#include <cotangent/ops/loss/element/bce_with_logits_internal.h>
#include <cotangent/ops/loss/element/sum_elements.cuh>

namespace ct::loss::bce {

template <class T>
struct Cycle {
  const T* values = nullptr;
  long long period = 1;

#ifndef CT_KERNEL_TEXT  // which has no code of the host
  explicit Cycle(const CyclicWeight& w)
      : values(w.values.defined() ? w.values.data<T>() : nullptr), period(w.period) {}
#endif

  __device__ __forceinline__ compute_t<T> operator()(long long i) const {
    return values ? gpu::to_compute(values[period == 1 ? 0 : i % period]) : compute_t<T>(1);
  }
};

/// As it is summed on a GPU.
template <class T>
struct Loss {
  Cycle<T> weight, pos_weight;

  template <class X>
  __device__ __forceinline__ X operator()(long long i, X x, X t) const {
    return Bce::eval(x, t, X(weight(i)), X(pos_weight(i)), X(0), X(0));
  }
};

}  // namespace ct::loss::bce
