#pragma once

#include <cstdint>

#include <cotangent/core/base/function_ref.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/loss/classes/class_loss_internal.h>
#include <cotangent/ops/loss/reduction.h>

namespace ct {

// nll_loss and both cross entropies: losses of rows of classes, by one set of kernels.

struct NllLossAttrs {
  Reduction reduction;
  std::int64_t ignore_index;
};
struct CrossEntropyAttrs {
  Reduction reduction;
  std::int64_t ignore_index;
  double label_smoothing;
};

// Output 1 of a cross entropy holds, in the compute type, what backward needs besides the logits: lse = logsumexp of each row;
// what rounding it to one number has lost; then one number that the mean is divided by; then, with labels,
// the sum of all class weights (if smoothing needs it), or with distributions M = sum_c w[c] t[c] of each
// row. nll_loss has that output for a mean alone: the divisor.
inline std::int64_t cross_entropy_stats(const loss::ClassLayout& layout, bool soft) {
  return 2 * layout.rows() + 1 + (soft ? layout.rows() : 1);
}

/// cross_entropy and its backward as one call, of inputs x, t, weight and the cotangent of y, and outputs y, statistics and dx: for
/// who knows the cotangent before, as a captured step does (nn/capture/merging.cpp). No public function calls it.
extern const OpDef k_cross_entropy_with_gradient;
/// Its kernels where there is none for both: one for each, of cross_entropy, or these.
void cross_entropy_in_two(const Forward& f);
void cross_entropy_in_two(const Forward& f, FunctionRef<void(const Forward&)> forward,
                          FunctionRef<void(const Backward&)> backward);

/// The attributes of a call whose op takes such targets (or smoothed ones for Target::label).
template <Target kTarget, class Call>
CrossEntropyAttrs class_attrs(const Call& call) {
  if constexpr (kTarget != Target::picked) return call.template attrs<CrossEntropyAttrs>();
  const auto& attrs = call.template attrs<NllLossAttrs>();
  return {attrs.reduction, attrs.ignore_index, 0};
}

}  // namespace ct
