#include <cmath>
#include <numbers>

#include <cotangent/core/check_number_internal.h>
#include <cotangent/core/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/loss/composed.h>
#include <cotangent/ops/reduce/reduce.h>

namespace ct {
namespace binary {
extern const OpDef
    k_binary_cross_entropy;  // a line of elementwise/binary_table.inc: one loss for each element
}
namespace {

Tensor reduced(const Tensor& losses, Reduction reduction) {
  return reduction == Reduction::none ? losses : reduction == Reduction::mean ? mean(losses) : sum(losses);
}

void check_same(const char* op, const Tensor& input, const Tensor& target) {
  CT_CHECK(input.shape() == target.shape(), ShapeError, op, "input is ", describe(input), ", target is ",
           describe(target), "; they must have the same shape: use reshape() or expand()");
  CT_CHECK(is_floating(input.dtype()) && input.dtype() == target.dtype(), DTypeError, op, "input is ",
           describe(input), ", target is ", describe(target), "; both must have the same floating dtype");
}

// With c = min(d, delta), c (d - c / 2) is d^2 / 2 up to delta and linear from there.
Tensor huber(const Tensor& input, const Tensor& target, double delta) {
  const Tensor d = abs(input - target), c = clamp(d, std::nullopt, delta);
  return c * (d - 0.5 * c);
}

}  // namespace

Tensor l1_loss(const Tensor& input, const Tensor& target, const L1LossOptions& options) {
  check_same("l1_loss", input, target);
  return reduced(abs(input - target), options.reduction);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossOptions& options) {
  check_same("huber_loss", input, target);
  detail::check_positive("huber_loss", "delta", options.delta);
  return reduced(huber(input, target, options.delta), options.reduction);
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossOptions& options) {
  check_same("smooth_l1_loss", input, target);
  detail::check_not_negative("smooth_l1_loss", "beta", options.beta);
  if (options.beta == 0) return reduced(abs(input - target), options.reduction);
  return reduced(huber(input, target, options.beta) / options.beta, options.reduction);
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            const BinaryCrossEntropyOptions& options) {
  check_same("binary_cross_entropy", input, target);
  const Tensor losses = dispatch(binary::k_binary_cross_entropy, {input, target});
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
  const Tensor given = var.shape() == input.shape() || var.shape() == one ? var : var.unsqueeze(-1);
  const Tensor v = given + (clamp(given, options.eps) - given).detach();
  const Tensor d = input - target;
  Tensor losses = 0.5 * (log(v) + d * d / v);
  if (options.full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
  return reduced(losses, options.reduction);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineSimilarityOptions& options) {
  detail::check_positive("cosine_similarity", "eps", options.eps);
  const Dims axis{options.axis};
  const auto length = [&](const Tensor& x) { return clamp(norm(x, 2, axis, true), options.eps); };
  return sum(a / length(a) * (b / length(b)), axis);
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
  const Tensor c = sum(a * b, last) / sqrt((sum(a * a, last) + kEps) * (sum(b * b, last) + kEps));
  const Tensor apart = clamp(c - options.margin, 0);
  return reduced(where(eq(target, 1), 1 - c, where(eq(target, -1), apart, 0)), options.reduction);
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, const PairwiseDistanceOptions& options) {
  detail::check_not_negative("pairwise_distance", "eps", options.eps);
  return norm(a - b + options.eps, options.p, {-1}, options.keepdim);
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
