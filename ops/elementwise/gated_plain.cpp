#include <cotangent/core/op_def.h>
#include <cotangent/ops/elementwise/gated_plain.h>
#include <cotangent/ops/engine/walk/copy.h>

// The plain kernels: every element of a call by gated_plain.h. The operands may have any strides, as those of the fast
// kernels.

namespace ct::plain {
namespace {

template <Gate gate(double)>
void forward(const Forward& f) {
  const Tensor as = contiguous(f.in(0)), bs = contiguous(f.in(1));
  const double *a = as.data<double>(), *b = bs.data<double>();
  each_element(f.out(), [=](std::int64_t i) { return gated(gate(a[i]), b[i]); });
}

template <Gate gate(double)>
void backward(const Backward& call) {
  const Tensor as = contiguous(call.in(0)), bs = contiguous(call.in(1)), gs = contiguous(call.grad());
  const double *a = as.data<double>(), *b = bs.data<double>(), *g = gs.data<double>();
  if (call.needs(0))
    each_element(call.grad_in(0), [=](std::int64_t i) { return gated_da(g[i], gate(a[i]), b[i]); });
  if (call.needs(1))
    each_element(call.grad_in(1), [=](std::int64_t i) { return gated_db(g[i], gate(a[i])); });
}

}  // namespace
}  // namespace ct::plain

CT_KERNELS(plain, gated, {"swiglu", plain::forward<plain::silu>, plain::backward<plain::silu>},
           {"geglu", plain::forward<plain::gelu>, plain::backward<plain::gelu>},
           {"geglu_tanh", plain::forward<plain::gelu_tanh>, plain::backward<plain::gelu_tanh>})
