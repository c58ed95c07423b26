#include <cotangent/ops/loss/classes/class_loss_plain.h>
#include <cotangent/ops/loss/head/linear_cross_entropy_internal.h>
#include <cotangent/ops/loss/head/linear_cross_entropy_plain.h>

#include <cstring>

// The plain kernels: a call by linear_cross_entropy_plain.h. Rows of the ignored label have neither loss nor gradient.

namespace ct::loss::head {
namespace {

using namespace plain;

/// The operands of a call as matrices, and its logits.
struct Logits {
  const Attrs& attrs;
  ConstMatrix x, w;
  loss::Labels labels;
  Matrix z;

  Logits(const Attrs& of_call, const Tensor& xs, const Tensor& ws, const Tensor& ts)
      : attrs(of_call),
        x(read(matrix(xs, 0, ts.numel(), ws.size(1), ws.size(1), 1))),
        w(read(matrix(ws, 0, ws.size(0), ws.size(1), ws.size(1), 1))),
        labels(ts),
        z(linear_logits(x, w)) {}

  std::int64_t count() const { return z.rows(); }
  bool counts(std::int64_t r) const { return labels[r] != attrs.ignore_index; }
  Row row(std::int64_t r) const { return {z.data() + r * z.cols(), z.cols(), Eigen::InnerStride<>(1)}; }
  std::int64_t grain() const { return std::max<std::int64_t>(1, 8192 / z.cols()); }

  /// dz, where g_of(r) is the cotangent of a row's loss.
  template <class G>
  Matrix gradient(const G& g_of) const {
    Matrix dz = Matrix::Zero(z.rows(), z.cols());
    parallel_for(count(), grain(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r)
        if (counts(r))
          logits_gradient(g_of(r), row(r), labels[r], attrs.label_smoothing,
                          {dz.data() + r * dz.cols(), dz.cols(), Eigen::InnerStride<>(1)});
    });
    return dz;
  }
};

/// to = from, or to += from.
template <class From>
void put(const From& from, const Tensor& to, bool accumulate) {
  Eigen::Map<Matrix> m(to.data<double>(), from.rows(), from.cols());
  if (accumulate)
    m += from;
  else
    m = from;
}

// A product of no rows is zeros, for which no second matrix is made.
void put_dw(const Matrix& dz, const ConstMatrix& x, const Tensor& dw, bool accumulate) {
  if (dz.rows() > 0) return put(linear_dw(dz, x), dw, accumulate);
  if (!accumulate && dw.nbytes() > 0) std::memset(dw.raw_data(), 0, static_cast<std::size_t>(dw.nbytes()));
}

void forward_plain(const Forward& f) {
  const auto& attrs = f.attrs<Attrs>();
  loss::ClassLayout layout;
  layout.outer = f.in(2).numel(), layout.classes = f.in(1).size(0);
  loss::check_label_values("linear_cross_entropy", loss::Labels(f.in(2)), layout, attrs.ignore_index);
  const Logits logits(attrs, f.in(0), f.in(1), f.in(2));
  const std::int64_t n = logits.count();
  double *lse = f.out(1).data<double>(), *rest = lse + n, *losses = rest + n, *divisor = losses + n;
  const auto loss_of = [&](std::int64_t r) -> loss::WeightedSum {
    lse[r] = rest[r] = losses[r] = 0;
    if (!logits.counts(r)) return {};
    const Row z = logits.row(r);
    loss::exact_sum(z.maxCoeff(), class_losses(z).minCoeff(), lse[r], rest[r]);
    losses[r] = logits_loss(z, logits.labels[r], attrs.label_smoothing);
    return {losses[r], 1};
  };
  const double by = reduce_losses(attrs.reduction, n, logits.grain(), f.out(), loss_of);
  *divisor = std::isnan(by) ? 0 : by;
  if (attrs.eager == kNone) return;
  const Matrix dz = logits.gradient([](std::int64_t) { return 1.0; });
  if (attrs.eager & kX) put(linear_dx(dz, logits.w), f.out(2), false);
  if (attrs.eager & kWeight) put_dw(dz, logits.x, f.out(3), false);
}

/// Gradients that forward has computed for a cotangent of 1 are multiplied by that of a row.
void scale_plain(const Backward& b) {
  check_kept(b);
  const Tensor& statistics = b.out(1);
  const double by = statistics.data<double>()[statistics.numel() - 1];
  const double g = by == 0 ? 0 : *b.grad().data<double>() / by;
  for (int i = 0; i < 2; ++i)
    if (b.needs(i))
      put(g * Eigen::Map<const Matrix>(b.out(2 + i).data<double>(), 1, b.out(2 + i).numel()), b.grad_in(i),
          b.accumulate(i));
}

void recompute_plain(const Backward& b) {
  const Logits logits(b.attrs<Attrs>(), b.in(0), b.in(1), b.in(2));
  const LossCotangents g(logits.attrs.reduction, b.grad(), b.out(1).data<double>()[3 * logits.count()]);
  const Matrix dz = logits.gradient([&](std::int64_t r) { return g[r]; });
  if (b.needs(0)) put(linear_dx(dz, logits.w), b.grad_in(0), b.accumulate(0));
  if (b.needs(1)) put_dw(dz, logits.x, b.grad_in(1), b.accumulate(1));
}

}  // namespace
}  // namespace ct::loss::head

CT_KERNELS(plain, linear_cross_entropy,
           {"linear_cross_entropy", loss::head::forward_plain, loss::head::scale_plain},
           {"linear_cross_entropy_recompute", loss::head::forward_plain, loss::head::recompute_plain})
