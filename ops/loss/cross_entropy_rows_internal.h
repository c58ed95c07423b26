#pragma once

#include <cotangent/ops/loss/cross_entropy_internal.h>

// Shared by the fast kernels of both devices: their operands, and how these come out of a call.

namespace ct {

/// The operands of a call, contiguous, on the device of the kernels.
template <class T, Target kTarget>
struct CrossEntropyRows {
  using C = compute_t<T>;
  static constexpr bool kLabels = kTarget != Target::soft;

  loss::ClassLayout layout;
  loss::Labels labels;  // unless soft
  const T* x;
  const T* t;       // soft: the distributions
  const T* weight;  // null: 1
  C smoothing;
  std::int64_t ignore_index;
  C* stats;  // see cross_entropy_stats()

  CT_HD C share() const { return smoothing / static_cast<C>(layout.classes); }
  // lse is log_sum + rest: what rounding it to one number loses counts where logits are large.
  CT_HD C& log_sum(std::int64_t r) const { return stats[r]; }
  CT_HD C& rest(std::int64_t r) const { return stats[layout.rows() + r]; }
  CT_HD C& divisor() const { return stats[2 * layout.rows()]; }
  CT_HD C& extra(std::int64_t r) const { return stats[2 * layout.rows() + 1 + (kLabels ? 0 : r)]; }
};

namespace cross_entropy_kernels {

template <class T>
const T* data_or_null(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

// Calls run(rows) with rows of the right types.
template <class Run>
void visit(const CrossEntropyAttrs& attrs, bool soft, const Tensor& x, const Tensor& target,
           const Tensor& weight, const Tensor& stats, const Run& run) {
  visit_fast("cross_entropy", x.dtype(), [&]<class T>(TypeTag<T>) {
    const auto with = [&]<Target kTarget>() {
      using C = compute_t<T>;
      run(CrossEntropyRows<T, kTarget>{
          loss::ClassLayout(x.shape()), soft ? loss::Labels{} : loss::Labels(target), x.data<T>(),
          soft ? data_or_null<T>(target) : nullptr, data_or_null<T>(weight),
          static_cast<C>(attrs.label_smoothing), attrs.ignore_index, stats.data<C>()});
    };
    if (soft)
      with.template operator()<Target::soft>();
    else if (attrs.label_smoothing > 0)
      with.template operator()<Target::smoothed>();
    else
      with.template operator()<Target::label>();
  });
}

/// Calls run(rows, reduction, losses).
template <class Run>
void forward(const Forward& f, bool soft, const Run& run) {
  const auto& attrs = f.attrs<CrossEntropyAttrs>();
  visit(attrs, soft, f.in(0), f.in(1), f.in(2), f.out(1),
        [&]<class T, Target k>(const CrossEntropyRows<T, k>& rows) {
          run(rows, attrs.reduction, f.out().data<T>());
        });
}

/// Calls run(rows, reduction, cotangent, dx, dt); dx or dt is null if it is not wanted. dx may lie over x: a
/// kernel reads a logit for the last time when it writes its gradient.
template <class Run>
void backward(const Backward& b, bool soft, const Run& run) {
  const auto& attrs = b.attrs<CrossEntropyAttrs>();
  visit(attrs, soft, b.in(0), b.saved_inputs[1], b.saved_inputs[2], b.out(1),
        [&]<class T, Target k>(const CrossEntropyRows<T, k>& rows) {
          run(rows, attrs.reduction, b.grad().data<T>(),
              b.needs(0) ? b.grad_in_over(0, b.in(0)).data<T>() : nullptr,
              b.needs(1) ? b.grad_in(1).data<T>() : nullptr);
        });
}

}  // namespace cross_entropy_kernels
}  // namespace ct
