#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/loss/classes/class_loss_plain.h>
#include <cotangent/ops/loss/classes/cross_entropy_internal.h>
#include <cotangent/ops/loss/classes/cross_entropy_plain.h>
#include <cotangent/ops/loss/classes/nll_loss_plain.h>

// The plain kernels: every row of a call by cross_entropy_plain.h, or by nll_loss_plain.h. Rows of the ignored label have neither loss nor
// weight. The statistics are written as cross_entropy_stats() says; backward needs no more of them than the divisor.

namespace ct::loss::classes {
namespace {

using namespace plain;

template <bool kSoft>
void forward_plain(const Forward& f) {
  const auto& attrs = f.attrs<CrossEntropyAttrs>();
  const double s = attrs.label_smoothing;
  const Tensor &x = f.in(0), &target = f.in(1);
  const Rows rows = class_rows(x.shape());
  const Array w = class_weights(f.in(2), x.shape());
  const loss::Labels labels = kSoft ? loss::Labels() : loss::Labels(target);
  if (!kSoft)
    loss::check_label_values("cross_entropy", labels, loss::ClassLayout(x.shape()), attrs.ignore_index);
  double *lse = f.out(1).data<double>(), *rest = lse + rows.count(), *divisor = rest + rows.count();
  double* extra = divisor + 1;
  *divisor = reduce_rows(attrs.reduction, x.shape(), f.out(), [&](std::int64_t r) -> loss::WeightedSum {
    lse[r] = rest[r] = 0;
    if (!kSoft && labels[r] == attrs.ignore_index) return {};
    const Row row = rows.of(x, r);
    const Array L = class_losses(row);
    loss::exact_sum(row.maxCoeff(), L.minCoeff(), lse[r], rest[r]);
    if (!kSoft) return {label_loss(L, w, labels[r], s), w[labels[r]]};
    const Array factors = soft_factors(w, rows.of(target, r), s);
    extra[r] = factors.sum();
    return {(factors * L).sum(), 1};
  });
  if (!kSoft) *extra = s > 0 ? w.sum() : 0;
}

template <bool kSoft>
void backward_plain(const Backward& b) {
  const auto& attrs = b.attrs<CrossEntropyAttrs>();
  const double s = attrs.label_smoothing;
  const Tensor &x = b.in(0), &target = b.saved_inputs[1];
  const Rows rows = class_rows(x.shape());
  const Array w = class_weights(b.saved_inputs[2], x.shape());
  const loss::Labels labels = kSoft ? loss::Labels() : loss::Labels(target);
  const LossCotangents g(attrs.reduction, b.grad(), b.out(1).data<double>()[2 * rows.count()]);
  const Tensor dx = b.needs(0) ? b.grad_in(0) : Tensor{}, dt = b.needs(1) ? b.grad_in(1) : Tensor{};
  rows.each([&](std::int64_t r) {
    if (!kSoft && labels[r] == attrs.ignore_index) {
      rows.in(dx, r).setZero();
      return;
    }
    const auto [L, p] = classes_of(rows.of(x, r));
    if (dx.defined())
      cross_entropy_dx(g[r], p,
                       kSoft ? soft_factors(w, rows.of(target, r), s) : label_factors(w, labels[r], s),
                       rows.in(dx, r));
    if (dt.defined()) cross_entropy_dt(g[r], L, w, s, rows.in(dt, r));
  });
}

void nll_forward(const Forward& f) {
  const auto& attrs = f.attrs<NllLossAttrs>();
  const Shape& shape = f.in(0).shape();
  const loss::Labels labels(f.in(1));
  loss::check_label_values(f.op.name, labels, loss::ClassLayout(shape), attrs.ignore_index);
  const Rows rows = class_rows(shape);
  const auto loss_of = [&](std::int64_t r) -> loss::WeightedSum {
    const std::int64_t t = labels[r];
    if (t == attrs.ignore_index) return {};
    const double w = class_weight(f.in(2), t);
    return {nll_loss(rows.of(f.in(0), r), t, w), w};
  };
  const double by = reduce_rows(attrs.reduction, shape, f.out(), loss_of);
  if (attrs.reduction == Reduction::mean) *f.out(1).data<double>() = by;
}

void nll_backward(const Backward& b) {
  if (!b.needs(0)) return;
  const auto& attrs = b.attrs<NllLossAttrs>();
  const Shape& shape = b.in_meta(0).shape;
  const Tensor& dx = b.grad_in(0);
  const loss::Labels labels(b.in(1));
  const Rows rows = class_rows(shape);
  const LossCotangents g(attrs.reduction, b.grad(),
                         attrs.reduction == Reduction::mean ? *b.out(1).data<double>() : 1);
  fill_kernel(dx, 0);
  rows.each([&](std::int64_t r) {
    const std::int64_t t = labels[r];
    if (t != attrs.ignore_index)
      rows.in(dx, r)[t] = nll_loss_gradient(g[r], class_weight(b.saved_inputs[2], t));
  });
}

}  // namespace
}  // namespace ct::loss::classes

CT_KERNELS(plain, cross_entropy,
           {"cross_entropy", loss::classes::forward_plain<false>, loss::classes::backward_plain<false>},
           {"cross_entropy_soft", loss::classes::forward_plain<true>, loss::classes::backward_plain<true>},
           {"nll_loss", loss::classes::nll_forward, loss::classes::nll_backward})
