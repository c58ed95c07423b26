#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/loss/class_loss_plain.h>
#include <cotangent/ops/loss/nll_loss_internal.h>
#include <cotangent/ops/loss/nll_loss_plain.h>

// The plain kernels: every row of a call by nll_loss_plain.h. Rows of the ignored label have neither loss nor weight.

namespace ct::nll_loss_kernels {
namespace {

using namespace plain;

void forward_plain(const Forward& f) {
  const auto& attrs = f.attrs<NllLossAttrs>();
  const Shape& shape = f.in(0).shape();
  const loss::Labels labels(f.in(1));
  loss::check_label_values(f.op.name, labels, loss::ClassLayout(shape), attrs.ignore_index);
  const Rows rows = class_rows(shape);
  const Array w = class_weights(f.in(2), shape);
  const auto loss_of = [&](std::int64_t r) -> loss::WeightedSum {
    const std::int64_t t = labels[r];
    if (t == attrs.ignore_index) return {};
    return {nll_loss(rows.of(f.in(0), r), t, w[t]), w[t]};
  };
  const double by = reduce_rows(attrs.reduction, shape, f.out(), loss_of);
  if (attrs.reduction == Reduction::mean) *f.out(1).data<double>() = by;
}

void backward_plain(const Backward& b) {
  if (!b.needs(0)) return;
  const auto& attrs = b.attrs<NllLossAttrs>();
  const Shape& shape = b.in_meta(0).shape;
  const Tensor& dx = b.grad_in(0);
  const loss::Labels labels(b.in(1));
  const Rows rows = class_rows(shape);
  const Array w = class_weights(b.saved_inputs[2], shape);
  const LossCotangents g(attrs.reduction, b.grad(),
                         attrs.reduction == Reduction::mean ? *b.out(1).data<double>() : 1);
  fill_kernel(dx, 0);
  rows.each([&](std::int64_t r) {
    const std::int64_t t = labels[r];
    if (t != attrs.ignore_index) rows.in(dx, r)[t] = nll_loss_gradient(g[r], w[t]);
  });
}

}  // namespace
}  // namespace ct::nll_loss_kernels

CT_KERNELS(plain, nll_loss, {"nll_loss", nll_loss_kernels::forward_plain, nll_loss_kernels::backward_plain})
