#pragma once

#include <cotangent/core/op/op_def.h>

// The ops behind nn::init that are no draws, for detail::write() (core/op/execute.h): they write their tensor, which is
// contiguous, of f32 or f64 and on the CPU.

namespace ct {

struct TruncatedAttrs {
  double mean, std, low, high;
};
/// Makes of numbers between 0 and 1 those of N(mean, std^2) within [low, high]: that which has the share x_i of them below it.
CT_API extern const OpDef k_truncated;

/// Makes the rows of a matrix orthonormal, in f64, by Gram and Schmidt: of each row remains what the rows before it do not span.
CT_API extern const OpDef k_orthonormalize;

}  // namespace ct
