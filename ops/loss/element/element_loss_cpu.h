#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/map/map_cpu.h>
#include <cotangent/ops/engine/map/math_f64_cpu.h>
#include <cotangent/ops/loss/loss_cpu.h>
#include <cotangent/ops/loss/ordered_sum_internal.h>
#include <cotangent/ops/loss/reduction.h>

// Losses that compare two tensors element by element (mse, bce_with_logits), on the CPU. A loss is a formula of the map
// engine (engine/map/formulas.h) of x, the target t and what else it has, and one of its gradients, which has the
// cotangent in front. The engine runs them; the loss's sum is here.

namespace ct::loss {

/// The sum over n elements; loss(i, count, x, t) gives those of elements i, i + 1, ...
template <class T, class Loss>
double sum_of(const T* x, const T* t, std::int64_t n, std::int64_t grain, const Loss& loss) {
  using P = Vector<T>;
  // Lanes add up over short runs in the compute type, runs in f64.
  constexpr std::int64_t kRun = 64 * P::kSize;
  return ordered_sum(n, grain, [&](std::int64_t begin, std::int64_t end) {
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
void forward_cpu(const Forward& f, Reduction reduction, const LossOf& loss_of) {
  if (reduction == Reduction::none) return map::forward_cpu<F, true, false>(f);
  const Tensor &x = f.in(0), &t = f.in(1);
  visit_floating(f.op.name, x.dtype(), [&]<class T>(TypeTag<T> type) {
    const double sum = sum_of(x.data<T>(), t.data<T>(), x.numel(), F::kGrain, loss_of(type));
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
void forward_cpu(const Forward& f, Reduction reduction) {
  forward_cpu<F>(f, reduction, [](auto) { return Unweighted<F>{}; });
}

/// The backward kernel, from formula F of g, x, t and what else there is, and of p. A reduced loss has no g but p, the one
/// cotangent, divided once; in f64, which p has not the digits for, that is a g of one number.
template <class F>
void backward_cpu(const Backward& b, Reduction reduction) {
  const Shape& shape = b.in_meta(0).shape;
  Tensor g;
  float p = 1;
  if (reduction == Reduction::none) {
    g = b.grad();
  } else {
    const double divisor = reduction == Reduction::mean ? static_cast<double>(numel(shape)) : 1.0;
    visit_floating(b.op.name, b.grad().dtype(), [&]<class T>(TypeTag<T>) {
      const double share = static_cast<double>(static_cast<compute_t<T>>(*b.grad().data<T>())) / divisor;
      if constexpr (std::is_same_v<T, double>)
        *(g = Tensor::allocate({}, DType::f64, b.grad().device())).template data<double>() = share;
      else
        p = static_cast<float>(share);
    });
  }
  map::joint_gradients<F>(b, g, shape, [&](auto outputs, auto inputs) {
    map::run_cpu(map::tiles_of<F>, outputs, inputs, {p, 0});
  });
}

}  // namespace ct::loss
