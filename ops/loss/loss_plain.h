#pragma once

#include <cotangent/ops/loss/classes/class_loss_internal.h>
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

/// The cotangents of the losses, from that of y: one for each, or one for all, divided as their sum was.
struct LossCotangents {
  const double* each;
  double all;

  LossCotangents(Reduction reduction, const Tensor& of_y, double divided_by)
      : each(reduction == Reduction::none ? of_y.data<double>() : nullptr),
        all(reduction == Reduction::none ? 0 : *of_y.data<double>() / divided_by) {}
  double operator[](std::int64_t i) const { return each ? each[i] : all; }
};

}  // namespace ct::plain
