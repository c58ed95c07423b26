#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/map/plain.h>
#include <cotangent/ops/loss/loss_plain.h>

// The plain kernels of losses that compare two tensors element by element.

namespace ct::plain {

/// y = reduce(loss_of(i)), i the elements of the call's input.
template <class F>
void element_losses(const Forward& f, Reduction reduction, const F& loss_of) {
  reduce_losses(reduction, f.in(0).numel(), kElementGrain, f.out(), [&](std::int64_t i) {
    return loss::WeightedSum{loss_of(i), 1};
  });
}

/// dx_i = dx_of(g_i, i) and dt_i = dt_of(g_i, i), where they are wanted.
template <class Dx, class Dt>
void element_gradients(const Backward& b, Reduction reduction, const Dx& dx_of, const Dt& dt_of) {
  const std::int64_t n = numel(b.in_meta(0).shape);
  const LossCotangents g(reduction, b.grad(), reduction == Reduction::mean ? static_cast<double>(n) : 1);
  if (b.needs(0)) each_element(b.grad_in(0), [&](std::int64_t i) { return dx_of(g[i], i); });
  if (b.needs(1)) each_element(b.grad_in(1), [&](std::int64_t i) { return dt_of(g[i], i); });
}

}  // namespace ct::plain
