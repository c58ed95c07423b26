#include <cmath>
#include <limits>
#include <utility>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/indexing/indexing.h>
#include <cotangent/ops/loss/classes/cross_entropy.h>
#include <cotangent/ops/loss/element/bce_with_logits.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/sampling/distributions.h>
#include <cotangent/ops/sampling/sampling.h>
#include <cotangent/ops/softmax/softmax.h>

namespace ct {

Tensor bernoulli(const Tensor& p, Generator& generator) {
  CT_CHECK(is_floating(p.dtype()), DTypeError, "bernoulli", "p is ", describe(p),
           "; probabilities are of a floating dtype: convert it with .to(f32)");
  const NoGrad no_grad;
  if (p.device().is_cpu())
    CT_CHECK(all(ge(p, 0)).item<bool>() && all(le(p, 1)).item<bool>(), ValueError, "bernoulli",
             "p, which is ", describe(p),
             ", has elements outside of [0, 1]; probabilities lie between: use clamp() or sigmoid()");
  const DType dtype = p.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return lt(rand(p.shape(), {.dtype = dtype, .device = p.device()}, generator), p.to(dtype)).to(p.dtype());
}

Tensor normal(const Tensor& mean, const Tensor& std, Generator& generator) {
  const Shape shape = broadcast_shapes("normal", mean.shape(), std.shape());
  return mean + std * randn(shape, {.dtype = mean.dtype(), .device = mean.device()}, generator);
}

namespace distributions {
namespace {

constexpr double kLogTwoPi = 1.8378770664093453;

}  // namespace

Categorical::Categorical(Tensor logits) : logits_(std::move(logits)) {
  CT_CHECK(logits_.dim() > 0 && logits_.size(-1) > 0, ShapeError, "Categorical", "logits are ",
           describe(logits_), "; the last axis is that of the choices, at least one");
  CT_CHECK(is_floating(logits_.dtype()), DTypeError, "Categorical", "logits are ", describe(logits_),
           "; they must be of a floating dtype");
}
Categorical Categorical::from_probs(const Tensor& probs) {
  Categorical made(log(probs));
  made.probs_ = probs / sum(probs, {-1}, true);
  return made;
}

Tensor Categorical::sample(Generator& generator) const {
  return sample_logits(logits_.detach(), {}, generator);
}

Tensor Categorical::log_prob(const Tensor& value) const {
  const std::int64_t n = logits_.size(-1);
  const Shape batch(logits_.shape().begin(), static_cast<std::size_t>(logits_.dim() - 1));
  CT_CHECK(value.shape() == batch, ShapeError, "Categorical::log_prob", "value is ", describe(value),
           ", logits are ", describe(logits_), "; value needs a number for each row of logits");
  if (probs_.defined()) return log(gather(probs_, -1, value.unsqueeze(-1)).squeeze(-1));
  const std::int64_t rows = logits_.numel() / n;
  return -cross_entropy(logits_.reshape({rows, n}), value.reshape({rows}), {.reduction = Reduction::none})
              .reshape(batch);
}

Tensor Categorical::expected_log(const Categorical& q) const {
  const Tensor p = probs();
  const bool logs = !q.probs_.defined();
  const Tensor of_q = logs ? log_softmax(q.logits_, -1) : q.probs_;
  const Tensor absent = logical_and(eq(p, 0), eq(of_q, logs ? -std::numeric_limits<double>::infinity() : 0));
  const Tensor there = where(absent, logs ? 0 : 1, of_q);
  return sum(p * (logs ? there : log(there)), {-1});
}
Tensor Categorical::entropy() const { return -expected_log(*this); }
Tensor Categorical::probs() const { return probs_.defined() ? probs_ : softmax(logits_, -1); }

Tensor Bernoulli::sample(Generator& generator) const { return bernoulli(probs().detach(), generator); }
Tensor Bernoulli::log_prob(const Tensor& value) const {
  return -bce_with_logits(logits_, value, {.reduction = Reduction::none});
}
Tensor Bernoulli::entropy() const {
  return bce_with_logits(logits_, probs(), {.reduction = Reduction::none});
}
Tensor Bernoulli::probs() const { return sigmoid(logits_); }

Tensor Normal::sample(Generator& generator) const {
  const NoGrad no_grad;
  return normal(mean_, std_, generator);
}
Tensor Normal::rsample(Generator& generator) const { return normal(mean_, std_, generator); }
Tensor Normal::log_prob(const Tensor& value) const {
  return -0.5 * square((value - mean_) / std_) - log(std_) - 0.5 * kLogTwoPi;
}
Tensor Normal::entropy() const { return log(std_) + zeros_like(mean_) + 0.5 * (1 + kLogTwoPi); }

Tensor kl_divergence(const Categorical& p, const Categorical& q) {
  return p.expected_log(p) - p.expected_log(q);
}
Tensor kl_divergence(const Normal& p, const Normal& q) {
  const Tensor ratio = square(p.stddev() / q.stddev()), apart = square((p.mean() - q.mean()) / q.stddev());
  return 0.5 * (ratio + apart - 1 - log(ratio));
}

}  // namespace distributions

CT_COMPOSED(distributions)

}  // namespace ct
