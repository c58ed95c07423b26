#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/map/formulas.h>
#include <cotangent/ops/loss/reduction.h>

namespace ct {

#ifndef CT_KERNEL_TEXT  // which has no code of the host
struct BceWithLogitsAttrs {
  Reduction reduction;
};

/// A weight as the reduced loss reads it, cyclically: element i of the input has values[i % period]. That covers a scalar, one
/// weight per class and one per element without a copy; other broadcasts are written out first.
struct CyclicWeight {
  Tensor values;  // contiguous; undefined for a weight of 1
  std::int64_t period = 1;

  CyclicWeight() = default;
  CyclicWeight(const Tensor& weight, const Shape& input);
};
#endif

namespace loss::bce {

/// softplus(x) and softplus(-x), with e = e^-|x|.
template <class X>
struct Softplus {
  X positive, negative;
};
template <class X>
CT_FORMULA Softplus<X> softplus_of(X x, X e) {
  const X low = log1p(e);  // softplus(-|x|)
  return {where(x > 0, x, 0) + low, where(x > 0, 0, -x) + low};
}

template <class X>
CT_FORMULA X bce_of(X x, X t, X weight, X pos_weight) {
  const Softplus<X> of = softplus_of(x, exp(-abs(x)));
  const X yes = pos_weight * t * of.negative;
  return weight * (yes + (1 - t) * of.positive);
}
/// With s = sigmoid(x), softplus'(x) = s and sigmoid(-x) = 1 - s:
///     dx = g w ((1 - t) s - p t (1 - s)),    dt = g w (p softplus(-x) - softplus(x)).
/// s and 1 - s are both made from e^-|x|, so neither is a difference of nearly equal numbers.
template <class X>
CT_FORMULA auto gradients_of(X g, X x, X t, X weight, X pos_weight) {
  const X e = exp(-abs(x));
  const X big = 1 / (1 + e), small = e * big;  // sigmoid(|x|), sigmoid(-|x|)
  const X s = where(x > 0, big, small), r = where(x > 0, small, big);
  const X no = (1 - t) * s;
  const X dx = weight * (no - pos_weight * t * r);
  const Softplus<X> of = softplus_of(x, e);
  const X dt = weight * (pos_weight * of.negative - of.positive);
  return map::results(g * dx, g * dt);
}

struct Traits : map::Formula {
  static constexpr unsigned kOptional = 0b1100;  // the weights
  static constexpr std::int64_t kGrain = 4096;
};
CT_MAP_FORMULA(Bce, Traits, 4, 1, (X x, X t, X weight, X pos_weight, X, X),
               return bce_of(x, t, weight, pos_weight))
/// The cotangent of the loss is g p.
struct GradientTraits : Traits {
  static constexpr unsigned kOptional = 0b11001;  // g and the weights
};
CT_MAP_FORMULA(BceGradients, GradientTraits, 5, 2, (X g, X x, X t, X weight, X pos_weight, X p, X),
               return gradients_of(g * p, x, t, weight, pos_weight))

}  // namespace loss::bce
}  // namespace ct
