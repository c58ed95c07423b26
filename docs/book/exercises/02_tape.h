#pragma once

#include <tape.h>

// Two ops for the tape. Give each input the slope that belongs to it.

namespace answer {

using book::Var;

/// 1 / (1 + exp(-a))
inline Var sigmoid(Var a) {
  const double y = 1 / (1 + std::exp(-a.value()));
  return {a.tape, a.tape->record("sigmoid", y, {{a.at, 0}})};  // yours: the slope is not 0
}

/// The larger of a and b.
inline Var maximum(Var a, Var b) {
  const double y = a.value() > b.value() ? a.value() : b.value();
  return {a.tape, a.tape->record("maximum", y, {{a.at, 0}, {b.at, 0}})};  // yours
}

}  // namespace answer
