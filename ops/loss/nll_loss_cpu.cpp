#include <cstring>

#include <cotangent/ops/loss/class_loss_internal.h>
#include <cotangent/ops/loss/loss_cpu.h>
#include <cotangent/ops/loss/nll_loss_internal.h>

namespace ct {
namespace {

constexpr std::int64_t kRows = 8192;  // per task

template <class T>
struct Rows {
  loss::ClassLayout layout;
  loss::Labels labels;
  const T* weight;  // null: 1
  std::int64_t ignore_index;

  double weight_of(std::int64_t label) const {
    return weight ? static_cast<double>(static_cast<compute_t<T>>(weight[label])) : 1.0;
  }
  // Losses and weights of rows [begin, end); each loss is also written to `out` if that is not null.
  loss::WeightedSum run(const T* x, std::int64_t begin, std::int64_t end, T* out) const {
    loss::WeightedSum sum;
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t label = labels[r];
      double value = 0;
      if (label != ignore_index) {
        const double w = weight_of(label);
        value = -w * static_cast<compute_t<T>>(x[layout.start(r) + label * layout.inner]);
        sum += {value, w};
      }
      if (out) out[r] = static_cast<T>(static_cast<compute_t<T>>(value));
    }
    return sum;
  }
};

void nll_loss_forward_cpu(const Forward& f) {
  const auto& attrs = f.attrs<NllLossAttrs>();
  const Tensor &x = f.in(0), &target = f.in(1), &weight = f.in(2);
  const loss::ClassLayout layout(x.shape());
  const loss::Labels labels(target);
  loss::check_label_values("nll_loss", labels, layout, attrs.ignore_index);
  visit_fast("nll_loss", x.dtype(), [&]<class T>(TypeTag<T>) {
    const Rows<T> rows{layout, labels, weight.defined() ? weight.data<T>() : nullptr, attrs.ignore_index};
    T* each = attrs.reduction == Reduction::none ? f.out().data<T>() : nullptr;
    const loss::WeightedSum sum = loss::ordered_sum(
        layout.rows(), kRows,
        [&](std::int64_t begin, std::int64_t end) { return rows.run(x.data<T>(), begin, end, each); });
    using C = compute_t<T>;
    if (attrs.reduction == Reduction::sum) *f.out().data<T>() = T(static_cast<C>(sum.loss));
    if (attrs.reduction == Reduction::mean) {
      const double by = loss::mean_divisor(sum.weight);
      *f.out().data<T>() = T(static_cast<C>(sum.loss / by));
      *f.out(1).data<C>() = static_cast<C>(by);
    }
  });
}

// dl/dx is 0 but for dl/dx[label] = -weight[label] * g (divided by the sum of weights for a mean).
void nll_loss_backward_cpu(const Backward& b) {
  const auto& attrs = b.attrs<NllLossAttrs>();
  const loss::ClassLayout layout(b.in_meta(0).shape);
  const Tensor &target = b.in(1), &g = b.grad(), &weight = b.saved_inputs[2];
  Tensor& dx = b.grad_in(0);
  if (dx.numel() == 0) return;
  std::memset(dx.raw_data(), 0, static_cast<std::size_t>(dx.nbytes()));
  visit_fast("nll_loss", dx.dtype(), [&]<class T>(TypeTag<T>) {
    using C = compute_t<T>;
    const Rows<T> rows{layout, loss::Labels(target), weight.defined() ? weight.data<T>() : nullptr,
                       attrs.ignore_index};
    const bool each = attrs.reduction == Reduction::none;
    const double divisor =
        attrs.reduction == Reduction::mean ? static_cast<double>(*b.out(1).data<C>()) : 1.0;
    const T* grad = g.data<T>();
    T* out = dx.data<T>();
    parallel_for(layout.rows(), kRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t label = rows.labels[r];
        if (label == attrs.ignore_index) continue;
        const double scale = static_cast<double>(static_cast<C>(grad[each ? r : 0])) / divisor;
        out[layout.start(r) + label * layout.inner] = T(static_cast<C>(-rows.weight_of(label) * scale));
      }
    });
  });
}

}  // namespace
}  // namespace ct

CT_KERNELS(cpu, nll_loss, {"nll_loss", nll_loss_forward_cpu, nll_loss_backward_cpu})
