#include <cmath>
#include <numbers>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/loss/composed.h>
#include <cotangent/ops/reduce/reduce.h>

namespace ct {
namespace elementwise::binary {
extern const OpDef
    k_binary_cross_entropy;  // a line of elementwise/binary_table.inc: one loss for each element
}
namespace {

Tensor reduced(const Tensor& losses, Reduction reduction) {
  return reduction == Reduction::none ? losses : reduction == Reduction::mean ? mean(losses) : sum(losses);
}

// In the dtype of sums: a small eps is 0 in 16 bits, and the square of a small or large number 0 or infinite.
Tensor wide(const Tensor& t) { return is_low_precision(t.dtype()) ? t.to(DType::f32) : t; }

void check_same(const char* op, const Tensor& input, const Tensor& target) {
  CT_CHECK(input.shape() == target.shape(), ShapeError, op, "input is ", describe(input), ", target is ",
           describe(target), "; they must have the same shape: use reshape() or expand()");
  CT_CHECK(is_floating(input.dtype()) && input.dtype() == target.dtype(), DTypeError, op, "input is ",
           describe(input), ", target is ", describe(target), "; both must have the same floating dtype");
}

// With c = d in [-delta, delta], c^2 / 2 + delta |d - c| is d^2 / 2 up to delta and linear from there. No |d|: its slope at 0
// would be that of c, too.
Tensor huber(const Tensor& input, const Tensor& target, double delta) {
  const Tensor d = input - target, c = clamp(d, -delta, delta);
  return 0.5 * square(c) + delta * abs(d - c);
}
Tensor huber_losses(const Tensor& input, const Tensor& target, double delta, double divisor,
                    Reduction reduction) {
  const Tensor losses = huber(wide(input), wide(target), delta);
  return reduced(divisor == 1 ? losses : losses / divisor, reduction).to(input.dtype());
}

}  // namespace

Tensor l1_loss(const Tensor& input, const Tensor& target, const L1LossOptions& options) {
  check_same("l1_loss", input, target);
  return reduced(abs(input - target), options.reduction);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossOptions& options) {
  check_same("huber_loss", input, target);
  detail::check_positive("huber_loss", "delta", options.delta);
  return huber_losses(input, target, options.delta, 1, options.reduction);
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossOptions& options) {
  check_same("smooth_l1_loss", input, target);
  detail::check_not_negative("smooth_l1_loss", "beta", options.beta);
  if (options.beta == 0) return reduced(abs(input - target), options.reduction);
  return huber_losses(input, target, options.beta, options.beta, options.reduction);
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            const BinaryCrossEntropyOptions& options) {
  check_same("binary_cross_entropy", input, target);
  const Tensor losses = dispatch(elementwise::binary::k_binary_cross_entropy, {input, target});
  if (!options.weight.defined()) return reduced(losses, options.reduction);
  return reduced(losses * options.weight.expand_as(losses), options.reduction);
}

Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options) {
  check_same("kl_div", input, target);
  const Tensor losses =
      options.log_target ? exp(target) * (target - input) : xlogy(target, target) - target * input;
  if (!options.batch_mean) return reduced(losses, options.reduction);
  CT_CHECK(input.dim() > 0, ShapeError, "kl_div", "input is ", describe(input),
           "; a mean over the batch needs an axis");
  return sum(losses) / static_cast<double>(input.size(0));
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         const GaussianNllLossOptions& options) {
  constexpr const char* op = "gaussian_nll_loss";
  check_same(op, input, target);
  detail::check_positive(op, "eps", options.eps);
  Shape one = input.shape(), lacking = input.shape();
  if (input.dim() > 0) {
    one.back() = 1;
    lacking.pop_back();
  }
  CT_CHECK(var.shape() == input.shape() || var.shape() == one || var.shape() == lacking, ShapeError, op,
           "input is ", describe(input), ", var is ", describe(var),
           "; var must have the input's shape, or size 1 in the last axis, or lack it");
  const Tensor given = wide(var.shape() == input.shape() || var.shape() == one ? var : var.unsqueeze(-1));
  const Tensor v = given + (clamp(given, options.eps) - given).detach();
  const Tensor d = wide(input) - wide(target);
  Tensor losses = 0.5 * (log(v) + d * d / v);
  if (options.full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
  return reduced(losses, options.reduction).to(promote(input.dtype(), var.dtype()));
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineSimilarityOptions& options) {
  constexpr const char* op = "cosine_similarity";
  detail::check_positive(op, "eps", options.eps);
  const Shape shape = broadcast_shapes(op, a.shape(), b.shape());
  const Dims axis{options.axis};
  // Along the axis both have all elements, or the lengths would be those of other vectors.
  const int at = wrap_axis(op, options.axis, shape.size());
  const auto direction = [&](const Tensor& t) {
    const Tensor x = wide(t);
    Shape whole = shape;
    for (int i = 0; i < shape.size(); ++i)
      if (const int own = i - shape.size() + x.dim(); i != at) whole[i] = own < 0 ? 1 : x.shape()[own];
    const Tensor v = x.expand(whole);
    return v / clamp(norm(v, 2, axis, true), options.eps);
  };
  return sum(direction(a) * direction(b), axis).to(promote(a.dtype(), b.dtype()));
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                             const CosineEmbeddingLossOptions& options) {
  constexpr const char* op = "cosine_embedding_loss";
  check_same(op, a, b);
  CT_CHECK((a.dim() == 1 || a.dim() == 2) && target.dim() == a.dim() - 1 &&
               (a.dim() == 1 || target.size(0) == a.size(0)),
           ShapeError, op, "inputs are ", describe(a), ", target is ", describe(target),
           "; they must be [n, features] and [n], or [features] and a scalar");
  constexpr double kEps = 1e-12;  // as in PyTorch
  const Dims last{-1};
  const Tensor x = wide(a), y = wide(b);
  const Tensor c = sum(x * y, last) / sqrt((sum(x * x, last) + kEps) * (sum(y * y, last) + kEps));
  const Tensor apart = clamp(c - options.margin, 0);
  return reduced(where(eq(target, 1), 1 - c, where(eq(target, -1), apart, 0)), options.reduction)
      .to(a.dtype());
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, const PairwiseDistanceOptions& options) {
  detail::check_not_negative("pairwise_distance", "eps", options.eps);
  return norm(wide(a) - wide(b) + options.eps, options.p, {-1}, options.keepdim)
      .to(promote(a.dtype(), b.dtype()));
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossOptions& options) {
  constexpr const char* op = "triplet_margin_loss";
  check_same(op, anchor, positive);
  check_same(op, anchor, negative);
  detail::check_positive(op, "margin", options.margin);
  const PairwiseDistanceOptions how{options.p, options.eps};
  const Tensor near = pairwise_distance(anchor, positive, how);
  Tensor far = pairwise_distance(anchor, negative, how);
  if (options.swap) far = minimum(far, pairwise_distance(positive, negative, how));
  return reduced(clamp(near - far + options.margin, 0), options.reduction);
}

CT_COMPOSED(composed)

}  // namespace ct
