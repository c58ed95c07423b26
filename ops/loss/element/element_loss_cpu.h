#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/map/map_cpu.h>
#include <cotangent/ops/engine/map/math_f64_cpu.h>
#include <cotangent/ops/engine/rows/record.h>
#include <cotangent/ops/loss/element/element_loss_internal.h>
#include <cotangent/ops/loss/loss_cpu.h>
#include <cotangent/ops/loss/ordered_sum_internal.h>

// Losses that compare two tensors element by element (mse, bce_with_logits), on the CPU. A loss is a formula of the map
// engine (engine/map/formulas.h) of x, the target t and what else it has, and one of its gradients, which has the
// cotangent in front. The engine runs them; the loss's sum is here.

namespace ct::loss {

/// The sum over n elements; loss(i, count, x, t) gives those of elements i, i + 1, ...
template <class T, class Loss>
double sum_of(const T* all, const T* t, std::int64_t n, std::int64_t grain, const Loss& loss,
              const rows::Passes* passes) {
  using P = Vector<T>;
  // Lanes add up over short runs in the compute type, runs in f64.
  constexpr std::int64_t kRun = 64 * P::kSize;
  return ordered_sum(n, grain, [&](std::int64_t begin, std::int64_t end) {
    const T* const x = passes ? static_cast<const T*>(passes->load(begin, end)) : all;
    double total = 0;
    for (std::int64_t i = begin; i < end;) {
      P lanes(0);
      const std::int64_t stop = std::min(i + kRun, end);
      for (; i + P::kSize <= stop; i += P::kSize)
        lanes = lanes + loss(i, P::kSize, load(x + i, P::kSize), load(t + i, P::kSize));
      total += lane_sum(lanes, P::kSize);
      if (i < stop) {
        const int count = static_cast<int>(stop - i);
        total += lane_sum(loss(i, count, load(x + i, count), load(t + i, count)), count);
        i = stop;
      }
    }
    return total;
  });
}

/// The forward kernel of a loss by formula F. loss_of(TypeTag<T>) gives its losses as they are summed.
template <class F, class LossOf>
void forward_cpu(const Forward& f, Reduction reduction, const rows::Passes* passes, const LossOf& loss_of) {
  if (reduction == Reduction::none) return map::forward_cpu<F, true, false>(f);
  const Tensor &x = f.in(0), &t = f.in(1);
  visit_floating(f.op.name, x.dtype(), [&]<class T>(TypeTag<T> type) {
    const double sum = sum_of(x.data<T>(), t.data<T>(), x.numel(), F::kGrain, loss_of(type), passes);
    *f.out().data<T>() = static_cast<T>(
        static_cast<compute_t<T>>(reduction == Reduction::mean ? sum / static_cast<double>(x.numel()) : sum));
  });
}
/// A loss without weights, as it is summed.
template <class F>
struct Unweighted {
  template <class P>
  CT_INLINE P operator()(std::int64_t, int, P x, P t) const {
    return F::eval(x, t, P(0), P(0));
  }
};
template <class F>
void forward_cpu(const Forward& f, Reduction reduction, const rows::Passes* passes = nullptr) {
  forward_cpu<F>(f, reduction, passes, [](auto) { return Unweighted<F>{}; });
}

/// The backward kernel, from formula F of g, x, t and what else there is, with p of share_of().
template <class F>
void backward_cpu(const Backward& b, Reduction reduction) {
  const Shape& shape = b.in_meta(0).shape;
  map::joint_gradients<F>(b, b.grad(), shape, [&](auto outputs, auto inputs) {
    map::run_cpu(map::tiles_of<F>, outputs, inputs, {share_of(reduction, numel(shape)), 0});
  });
}

/// The record of a loss that is summed over all elements, with that as its forward kernel.
template <class Attrs, void (*forward)(const Forward& f, const rows::Passes* passes)>
constexpr rows::RowRecord kSummed{
    .axes =
        [](AttrsView attrs, const Shape&) {
          return static_cast<const Attrs*>(attrs.data)->reduction == Reduction::none
                     ? 0
                     : rows::RowRecord::kWhole;
        },
    .shared = ~1u,
    .backward = false,
    .forward_within = [](const Forward& f, const rows::Passes& passes) { forward(f, &passes); }};

}  // namespace ct::loss
