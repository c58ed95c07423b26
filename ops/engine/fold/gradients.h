#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <cotangent/core/base/export.h>
#include <cotangent/ops/engine/fold/products.h>
#include <cotangent/ops/engine/fold/scaled.h>

// The gradients of the reductions whose cotangent does not simply spread out: one formula per kind, for one
// element x, written once for both devices. g is the cotangent, y the result, aux what was computed on the
// side, all of the output that x went into. README.md has the derivations.

namespace ct::fold {

enum class Gradient : std::uint8_t {
  extremum,       // amax, amin: y the value, aux the number of ties
  position,       // max, min along an axis: aux is the position that won, index the element's own
  product,        // y and aux: see OtherFactors
  variance,       // aux the mean; scale = 2 / (n - correction)
  deviation,      // y the standard deviation, aux the mean; scale = 1 / (n - correction)
  norm1,          // scale 0 serves the norm of order 0, whose gradient is 0
  norm2,          // y the norm
  norm_extremum,  // y the norm, aux the number of ties
  norm,           // y the norm; p its order
  log_sum_exp,    // y the largest x, aux log(sum(exp(x - y))): 0 where y is -inf
};

struct GradientSettings {
  double scale = 1;
  double p = 2;
};

template <class C>
CT_HD inline C sign_of(C x) {
  return x > 0 ? C(1) : x < 0 ? C(-1) : x == 0 ? C(0) : x;  // a NaN stays
}

struct StandardExp {
  template <class C>
  CT_HD C operator()(C x) const {
    return std::exp(x);
  }
};

template <Gradient kind, class C, class Exp = StandardExp>
CT_HD inline C gradient_of(C x, C g, C y, C aux, C scale, C p, Exp exp = {}) {
  if constexpr (kind == Gradient::extremum) {
    return x == y || (x != x && y != y) ? g / aux : C(0);
  } else if constexpr (kind == Gradient::product) {
    return OtherFactors<C>{y, aux}.gradient(g, x);
  } else if constexpr (kind == Gradient::variance) {
    return g * scale * (x - aux);
  } else if constexpr (kind == Gradient::deviation) {
    return y == 0 ? C(0) : g * scale * ((x - aux) / y);
  } else if constexpr (kind == Gradient::norm1) {
    return g * scale * sign_of(x);
  } else if constexpr (kind == Gradient::norm2) {
    return y == 0 ? C(0) : g * (x / y);  // a quotient of at most 1
  } else if constexpr (kind == Gradient::norm_extremum) {
    const C size = x < 0 ? -x : x;
    return size == y || size != size ? g / aux * sign_of(x) : C(0);
  } else if constexpr (kind == Gradient::norm) {
    if (x == 0 || y == 0) return C(0);
    return g * sign_of(x) * power_of((x < 0 ? -x : x) / y, p - 1);
  } else {
    static_assert(kind == Gradient::log_sum_exp);
    return g * exp((x - (y == -INFINITY ? C(0) : y)) - aux);
  }
}

}  // namespace ct::fold
