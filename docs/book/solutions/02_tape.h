#pragma once

#include <tape.h>

namespace answer {

using book::Var;

/// 1 / (1 + exp(-a)). With y the result, dy/da = exp(-a) / (1 + exp(-a))^2 = y (1 - y): no further exp.
inline Var sigmoid(Var a) {
  const double y = 1 / (1 + std::exp(-a.value()));
  return {a.tape, a.tape->record("sigmoid", y, {{a.at, y * (1 - y)}})};
}

/// The larger of a and b. The operand that was passed on gets all, the other nothing; of equal numbers we choose b.
/// Is that wrong? At a = b any share s for a and 1 - s for b is a subgradient, so none is; two shares that do not sum to 1 would
/// be. The library gives half to each, so that exchanging a and b changes nothing.
inline Var maximum(Var a, Var b) {
  const Var larger = a.value() > b.value() ? a : b;
  return {a.tape, a.tape->record("maximum", larger.value(), {{larger.at, 1}})};
}

}  // namespace answer
