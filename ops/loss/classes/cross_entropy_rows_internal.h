#pragma once

#include <cotangent/ops/loss/classes/cross_entropy_internal.h>

// Shared by the fast kernels of both devices: their operands, and how these come out of a call.

namespace ct {

/// The operands of a call, contiguous, on the device of the kernels.
template <class T, Target kTarget>
struct CrossEntropyRows {
  using C = compute_t<T>;
  static constexpr bool kLabels = kTarget != Target::soft;

  loss::ClassLayout layout;
  loss::Labels labels;  // unless soft
  const T* x;           // picked: null in backward
  const T* t;           // soft: the distributions
  const T* weight;      // null: 1
  C smoothing;
  std::int64_t ignore_index;
  C* stats;  // see cross_entropy_stats(); picked: null but for a mean

  CT_HD C share() const { return smoothing / static_cast<C>(layout.classes); }
  // lse is log_sum + rest: what rounding it to one number loses counts where logits are large.
  CT_HD C& log_sum(std::int64_t r) const { return stats[r]; }
  CT_HD C& rest(std::int64_t r) const { return stats[layout.rows() + r]; }
  CT_HD C& divisor() const { return stats[kTarget == Target::picked ? 0 : 2 * layout.rows()]; }
  CT_HD C& extra(std::int64_t r) const { return stats[2 * layout.rows() + 1 + (kLabels ? 0 : r)]; }
};

#ifndef CT_KERNEL_TEXT  // which has no code of the host
namespace loss::classes {

template <class T>
const T* data_or_null(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

// Calls run(rows) with rows of the right types; x may be undefined.
template <Target kTarget, class Run>
void visit(const char* op, const CrossEntropyAttrs& attrs, const Shape& shape, DType dtype, const Tensor& x,
           const Tensor& target, const Tensor& weight, const Tensor& stats, const Run& run) {
  visit_fast(op, dtype, [&]<class T>(TypeTag<T>) {
    const auto with = [&]<Target k>() {
      using C = compute_t<T>;
      constexpr bool soft = k == Target::soft;
      run(CrossEntropyRows<T, k>{loss::ClassLayout(shape), soft ? loss::Labels{} : loss::Labels(target),
                                 data_or_null<T>(x), soft ? data_or_null<T>(target) : nullptr,
                                 data_or_null<T>(weight), static_cast<C>(attrs.label_smoothing),
                                 attrs.ignore_index, const_cast<C*>(data_or_null<C>(stats))});
    };
    if constexpr (kTarget == Target::label)
      if (attrs.label_smoothing > 0) return with.template operator()<Target::smoothed>();
    with.template operator()<kTarget>();
  });
}

/// Calls run(rows, reduction, losses).
template <Target kTarget, class Run>
void forward(const Forward& f, const Run& run) {
  const CrossEntropyAttrs attrs = class_attrs<kTarget>(f);
  const bool stats = kTarget != Target::picked || attrs.reduction == Reduction::mean;
  const Tensor none;
  visit<kTarget>(f.op.name, attrs, f.in(0).shape(), f.in(0).dtype(), f.in(0), f.in(1), f.in(2),
                 stats ? f.out(1) : none, [&]<class T, Target k>(const CrossEntropyRows<T, k>& rows) {
                   run(rows, attrs.reduction, f.out().data<T>());
                 });
}

/// Calls run(rows, reduction, cotangent, dx, dt); dx or dt is null if it is not wanted. dx may lie over x: a
/// kernel reads a logit for the last time when it writes its gradient.
template <Target kTarget, class Run>
void backward(const Backward& b, const Run& run) {
  const CrossEntropyAttrs attrs = class_attrs<kTarget>(b);
  const bool stats = kTarget != Target::picked || attrs.reduction == Reduction::mean;
  const Tensor none;
  visit<kTarget>(
      b.op.name, attrs, b.in_meta(0).shape, b.in_meta(0).dtype, b.saved_inputs[0], b.saved_inputs[1],
      b.saved_inputs[2], stats ? b.out(1) : none, [&]<class T, Target k>(const CrossEntropyRows<T, k>& rows) {
        T* dx = nullptr;
        if (b.needs(0))
          dx = (kTarget == Target::picked ? b.grad_in(0) : b.grad_in_over(0, b.in(0))).template data<T>();
        run(rows, attrs.reduction, b.grad().data<T>(), dx, b.needs(1) ? b.grad_in(1).data<T>() : nullptr);
      });
}

}  // namespace loss::classes
#endif
}  // namespace ct
