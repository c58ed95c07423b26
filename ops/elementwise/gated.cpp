#include <cotangent/ops/elementwise/gated.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/gated_formulas_internal.h>
#include <cotangent/ops/elementwise/gated_internal.h>
#include <cotangent/ops/elementwise/rule_internal.h>

namespace ct {
CT_KERNEL_TABLES(gated)
namespace {

using elementwise::gated::Gate;

void infer(Infer& in) {
  const Tensor &gate = in.in(0), &up = in.in(1);
  CT_CHECK(gate.shape() == up.shape(), ShapeError, in.op.name, "gate is ", describe(gate), ", up is ",
           describe(up), "; they must have the same shape");
  in.output(gate.shape(), gate.dtype());
}

// da = g b gate'(a), db = g gate(a).
template <Gate kGate>
void rule(const Backward& b) {
  const auto gate = elementwise::gated::gate_of<kGate>(map::Symbol(b.in(0)));
  if (b.needs(0)) b.set_grad_in(0, b.grad() * b.in(1) * gate.slope.tensor());
  if (b.needs(1)) b.set_grad_in(1, b.grad() * gate.value.tensor());
}

constexpr InputDef kInputs[] = {{.name = "gate", .needs = "gate up"}, {.name = "up", .needs = "gate up"}};
constexpr OutputDef kOutputs[] = {{.name = "y"}};

template <Gate kGate>
consteval OpDef define(const char* name, const char* formula) {
  return checked({.name = name,
                  .formula = formula,
                  .inputs = kInputs,
                  .outputs = kOutputs,
                  .infer = infer,
                  .kernels = &kernel_tables::gated,
                  .fast_f64 = true,
                  .rule = rule<kGate>,
                  .flops_each = 5});
}

constexpr OpDef k_swiglu = define<Gate::silu>("swiglu", "y = silu(a) b");
constexpr OpDef k_geglu = define<Gate::gelu>("geglu", "y = gelu(a) b");
constexpr OpDef k_geglu_tanh = define<Gate::gelu_tanh>("geglu_tanh", "y = gelu_tanh(a) b");

}  // namespace

Tensor swiglu(const Tensor& gate, const Tensor& up) { return dispatch(k_swiglu, {gate, up}); }
Tensor geglu(const Tensor& gate, const Tensor& up, Gelu approximate) {
  return dispatch(approximate == Gelu::exact ? k_geglu : k_geglu_tanh, {gate, up});
}

CT_ROOM(gated, &k_swiglu, &k_geglu, &k_geglu_tanh)
}  // namespace ct
