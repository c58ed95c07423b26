#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/map/plain.h>
#include <cotangent/ops/loss/class_loss_internal.h>
#include <cotangent/ops/loss/ordered_sum_internal.h>
#include <cotangent/ops/loss/reduction.h>

// Shared by the plain kernels of losses: how the losses of a call become y, and how the cotangent of y reaches them.

namespace ct::plain {

/// y = reduce(losses), where loss_of(i), i in [0, n), is a loss and what it weighs in a mean; `grain` of them are worth a
/// thread. Returns what the sum was divided by.
template <class F>
double reduce_losses(Reduction reduction, std::int64_t n, std::int64_t grain, const Tensor& y,
                     const F& loss_of) {
  double* each = reduction == Reduction::none ? y.data<double>() : nullptr;
  const loss::WeightedSum sum = loss::ordered_sum(n, grain, [&](std::int64_t begin, std::int64_t end) {
    loss::WeightedSum part;
    for (std::int64_t i = begin; i < end; ++i) {
      const loss::WeightedSum one = loss_of(i);
      if (each) each[i] = one.loss;
      part += one;
    }
    return part;
  });
  const double by = reduction == Reduction::mean ? loss::mean_divisor(sum.weight) : 1;
  if (reduction != Reduction::none) *y.data<double>() = sum.loss / by;
  return by;
}

/// The cotangents of the losses, from that of y: one for each, or one for all, divided as they were.
struct LossCotangents {
  const double* g;
  bool each;
  double by;

  LossCotangents(Reduction reduction, const Tensor& of_y, double divided_by)
      : g(of_y.data<double>()), each(reduction == Reduction::none), by(divided_by) {}
  double operator[](std::int64_t i) const { return g[each ? i : 0] / by; }
};

// ---- losses of elements: mse_loss, bce_with_logits ---------------------------------------------------------

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
