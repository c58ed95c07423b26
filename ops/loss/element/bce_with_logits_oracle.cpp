#include <cotangent/ops/loss/element/bce_with_logits_internal.h>
#include <cotangent/ops/loss/element/bce_with_logits_plain.h>
#include <cotangent/ops/loss/element/element_loss_plain.h>

// The plain kernels, oracles alone (the fast ones run in f64 as well): every element of a call by bce_with_logits_plain.h.

namespace ct::loss::bce {
namespace {

using namespace plain;

/// The weights of the elements: 1 where there is no tensor of weights.
struct Weights {
  Tensor each;  // element of the input

  Weights(const Tensor& weight, const Shape& input) {
    if (weight.defined()) each = weight.detach().expand(input).contiguous();
  }
  double operator[](std::int64_t i) const { return each.defined() ? each.data<double>()[i] : 1; }
};

void forward_plain(const Forward& f) {
  const double *x = f.in(0).data<double>(), *t = f.in(1).data<double>();
  const Weights w(f.in(2), f.in(0).shape()), p(f.in(3), f.in(0).shape());
  element_losses(f, f.attrs<BceWithLogitsAttrs>().reduction,
                 [&](std::int64_t i) { return bce_with_logits(x[i], t[i], w[i], p[i]); });
}

void backward_plain(const Backward& b) {
  const double *x = b.in(0).data<double>(), *t = b.in(1).data<double>();
  const Shape& shape = b.in_meta(0).shape;
  const Weights w(b.saved_inputs[2], shape), p(b.saved_inputs[3], shape);
  element_gradients(
      b, b.attrs<BceWithLogitsAttrs>().reduction,
      [&](double g, std::int64_t i) { return bce_with_logits_dx(g, x[i], t[i], w[i], p[i]); },
      [&](double g, std::int64_t i) { return bce_with_logits_dt(g, x[i], w[i], p[i]); });
}

}  // namespace
}  // namespace ct::loss::bce

CT_KERNELS(oracle, bce_with_logits, {"bce_with_logits", loss::bce::forward_plain, loss::bce::backward_plain})
