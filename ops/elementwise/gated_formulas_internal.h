#pragma once

#include <cotangent/ops/elementwise/gated_internal.h>
#include <cotangent/ops/engine/map/formulas.h>

// The gates and their slopes for any number type (see engine/map/formulas.h). Backward wants both,
// which have their one exponential in common.

namespace ct::elementwise::gated {

template <class X>
struct GateValue {
  X value, slope;
};

template <Gate kGate, class X>
CT_FORMULA GateValue<X> gate_of(X x) {
  using namespace map;
  if constexpr (kGate == Gate::silu) {
    const X s = sigmoid(x);
    return {x * s, s * (1 + x * (1 - s))};
  } else if constexpr (kGate == Gate::gelu) {
    const X e = gauss(x), cdf = normal_cdf(x, e);
    return {x * cdf, cdf + x * (kOneOverSqrtTwoPi * e)};
  } else {
    const X s = sigmoid(2 * kSqrtTwoOverPi * (x + 0.044715 * (x * x * x)));
    return {x * s, gelu_tanh_slope(x, s)};
  }
}

template <Gate kGate, class X>
CT_FORMULA auto gated_gradients(X g, X gate, X up) {
  const GateValue<X> of = gate_of<kGate>(gate);
  return map::results(g * up * of.slope, g * of.value);
}

/// The formulas of the kernels, forward and back.
struct Traits : map::Formula {
  static constexpr bool kStreaming = true;
  static constexpr std::int64_t kGrain = 8192;
};
template <Gate kGate>
CT_MAP_FORMULA(Gated, Traits, 2, 1, (X gate, X up, X, X), return gate_of<kGate>(gate).value * up)
template <Gate kGate>
CT_MAP_FORMULA(GatedGradients, Traits, 3, 2, (X g, X gate, X up, X, X),
               return gated_gradients<kGate>(g, gate, up))

}  // namespace ct::elementwise::gated
