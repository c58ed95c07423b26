#pragma once

#include <cstdint>

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/loss/class_loss_internal.h>
#include <cotangent/ops/loss/reduction.h>

namespace ct {

struct CrossEntropyAttrs {
  Reduction reduction;
  std::int64_t ignore_index;
  double label_smoothing;
};

// Output 1 holds, in the compute type, what backward needs besides the logits: lse = logsumexp of each row;
// what rounding it to one number has lost; then one number that the mean is divided by; then, with labels,
// the sum of all class weights (if smoothing needs it), or with distributions M = sum_c w[c] t[c] of each
// row.
inline std::int64_t cross_entropy_stats(const loss::ClassLayout& layout, bool soft) {
  return 2 * layout.rows() + 1 + (soft ? layout.rows() : 1);
}

/// Target of a row.
enum class Target : std::uint8_t {
  label,     ///< a class
  smoothed,  ///< a class, with label smoothing
  soft,      ///< a distribution
};

}  // namespace ct
