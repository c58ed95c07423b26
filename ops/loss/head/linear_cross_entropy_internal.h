#pragma once

#include <cstdint>

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/loss/reduction.h>

namespace ct::loss::head {

/// Gradients that forward computes.
enum Eager : std::uint8_t { kNone = 0, kX = 1, kWeight = 2, kBoth = 3 };

struct Attrs {
  Reduction reduction;
  Eager eager;
  std::int64_t ignore_index;
  double label_smoothing;
  std::int64_t chunk_rows;
};

// Output 1, in the compute type: lse = logsumexp of each of n rows, then what rounding it to one number has
// lost, then the loss of each, then the number that the sum is divided by. Outputs 2 and 3 of the eager op:
// the gradients of x, in its dtype, and of the weight, in the accumulating type, for a cotangent of 1 of the
// plain sum; empty if not asked for.
constexpr std::int64_t stats_size(std::int64_t rows) { return 3 * rows + 1; }

/// Throws AutogradError where a gradient is wanted that forward, told so by its attributes, did not compute.
void check_kept(const Backward& b);

}  // namespace ct::loss::head
