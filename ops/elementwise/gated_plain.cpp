#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/elementwise/gated_plain.h>

// The plain kernels: every element of a call by gated_plain.h.

namespace ct::plain::gated_calls {
namespace {

template <Gate gate(double)>
void forward(const Forward& f) {
  const double *a = f.in(0).data<double>(), *b = f.in(1).data<double>();
  each_element(f.out(), [=](std::int64_t i) { return gated(gate(a[i]), b[i]); });
}

template <Gate gate(double)>
void backward(const Backward& call) {
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
}  // namespace ct::plain::gated_calls

CT_KERNELS(plain, gated,
           {"swiglu", plain::gated_calls::forward<plain::silu>, plain::gated_calls::backward<plain::silu>},
           {"geglu", plain::gated_calls::forward<plain::gelu>, plain::gated_calls::backward<plain::gelu>},
           {"geglu_tanh", plain::gated_calls::forward<plain::gelu_tanh>,
            plain::gated_calls::backward<plain::gelu_tanh>})
