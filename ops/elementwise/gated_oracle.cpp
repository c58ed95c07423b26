#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/elementwise/gated_plain.h>

// The plain kernels, oracles alone (the fast ones run in f64 as well): every element of a call by gated_plain.h.

namespace ct::elementwise::gated {
namespace {

using namespace plain;

template <Gate gate(double)>
void forward_plain(const Forward& f) {
  const double *a = f.in(0).data<double>(), *b = f.in(1).data<double>();
  each_element(f.out(), [=](std::int64_t i) { return plain::gated(gate(a[i]), b[i]); });
}

template <Gate gate(double)>
void backward_plain(const Backward& call) {
  const double *a = call.in(0).data<double>(), *b = call.in(1).data<double>(),
               *g = call.grad().data<double>();
  if (!call.needs(0)) {
    if (call.needs(1))
      each_element(call.grad_in(1), [=](std::int64_t i) { return gated_db(g[i], gate(a[i])); });
    return;
  }
  double* const db = call.needs(1) ? call.grad_in(1).data<double>() : nullptr;
  each_element(call.grad_in(0), [=](std::int64_t i) {
    const Gate f = gate(a[i]);
    if (db) db[i] = gated_db(g[i], f);
    return gated_da(g[i], f, b[i]);
  });
}

}  // namespace
}  // namespace ct::elementwise::gated

CT_KERNELS(oracle, gated,
           {"swiglu", elementwise::gated::forward_plain<plain::silu>,
            elementwise::gated::backward_plain<plain::silu>},
           {"geglu", elementwise::gated::forward_plain<plain::gelu>,
            elementwise::gated::backward_plain<plain::gelu>},
           {"geglu_tanh", elementwise::gated::forward_plain<plain::gelu_tanh>,
            elementwise::gated::backward_plain<plain::gelu_tanh>})
