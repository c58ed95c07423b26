#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/map/formulas.h>
#include <cotangent/ops/engine/map/map.h>

namespace ct::elementwise::dropout_impl {

struct Attrs {
  double p;
  GeneratorState draw;
};

struct Traits : map::Formula {
  static constexpr bool kDraws = true, kF64OnCpu = false, kStreaming = true;
  static constexpr std::int64_t kGrain = 16384;
};
/// The formula of forward, of x, and of backward, of the cotangent: y is linear in x.
CT_MAP_FORMULA(Drop, Traits, 1, 1, (X x, auto dropped, X p, X), return where(dropped, 0, x) * p)

inline map::Parameters numbers_of(const Attrs& attrs) { return {attrs.p < 1 ? 1 / (1 - attrs.p) : 0.0, 0}; }
inline map::Draw draw_of(const Attrs& attrs) { return {attrs.draw, bernoulli_threshold(attrs.p)}; }

/// y = x with elements dropped, by run(outputs, inputs, parameters, draw), which runs Drop.
template <class Run>
void apply(const Tensor& x, const Tensor& y, const Attrs& attrs, Run&& run) {
  const map::Draw draw = draw_of(attrs);
  const Tensor *outputs[] = {&y}, *inputs[] = {&x};
  run(outputs, inputs, numbers_of(attrs), &draw);
}

}  // namespace ct::elementwise::dropout_impl
