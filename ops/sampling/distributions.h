#pragma once

#include <utility>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/number.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/tensor/tensor.h>

// Numbers drawn with given probabilities, and distributions as objects, for reinforcement learning and variational
// inference. All draws are the same on the CPU and on CUDA.

namespace ct {

/// 1 with probability p, else 0, for each element of p; of p's dtype, without a gradient. Throws DTypeError for other than
/// floating dtypes and, on the CPU, ValueError for a p outside of [0, 1]; on a GPU such a p gives 0 below and 1 above.
CT_API Tensor bernoulli(const Tensor& p, Generator& generator = default_generator());

/// mean + std * z with z standard normal; mean and std broadcast and get gradients.
CT_API Tensor normal(const Tensor& mean, const Tensor& std, Generator& generator = default_generator());

namespace distributions {

/// One of n, with probabilities softmax(logits) along the last axis. All but that axis are a batch of distributions.
class CT_API Categorical {
 public:
  /// Throws ShapeError for a scalar, DTypeError for other than floating dtypes.
  explicit Categorical(Tensor logits);
  /// From probabilities, or weights, which need not add up to 1.
  static Categorical from_probs(const Tensor& probs);

  /// i64, of the batch's shape; no gradient. Throws as sample_logits().
  Tensor sample(Generator& generator = default_generator()) const;
  /// ln of the probability of `value`, i64 of the batch's shape; the logits get gradients. Throws IndexError, ShapeError.
  Tensor log_prob(const Tensor& value) const;
  /// -sum p ln p, of the batch's shape; the logits get gradients.
  Tensor entropy() const;
  Tensor probs() const;
  const Tensor& logits() const { return logits_; }

 private:
  friend CT_API Tensor kl_divergence(const Categorical& p, const Categorical& q);
  // sum p ln q, to which a choice that neither has adds nothing.
  Tensor expected_log(const Categorical& q) const;

  Tensor logits_;
  Tensor probs_;  // of from_probs(), adding up to 1: what ln makes of a 0 has no gradient
};

/// 1 with probability p = sigmoid(logits), else 0, for each element.
class CT_API Bernoulli {
 public:
  explicit Bernoulli(Tensor logits) : logits_(std::move(logits)) {}
  /// 0 or 1, of the logits' dtype; no gradient.
  Tensor sample(Generator& generator = default_generator()) const;
  /// ln p where the value is 1, ln(1 - p) where it is 0; the logits get gradients.
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor probs() const;
  const Tensor& logits() const { return logits_; }

 private:
  Tensor logits_;
};

/// Independent normal distributions, one for each element of mean and std, which broadcast.
class CT_API Normal {
 public:
  Normal(Tensor mean, Tensor std) : mean_(std::move(mean)), std_(std::move(std)) {}
  /// Without a gradient, and with one (the reparameterisation of Kingma and Welling, 2014).
  Tensor sample(Generator& generator = default_generator()) const;
  Tensor rsample(Generator& generator = default_generator()) const;
  /// -((value - mean) / std)^2 / 2 - ln(std) - ln(2 pi) / 2; value, mean and std get gradients.
  Tensor log_prob(const Tensor& value) const;
  /// ln(std) + (1 + ln(2 pi)) / 2
  Tensor entropy() const;
  const Tensor& mean() const { return mean_; }
  const Tensor& stddev() const { return std_; }

 private:
  Tensor mean_, std_;
};

/// sum_i p_i ln(p_i / q_i), of the batch's shape; infinite where q_i is 0 and p_i is not.
CT_API Tensor kl_divergence(const Categorical& p, const Categorical& q);
/// ln(s_q / s_p) + (s_p^2 + (m_p - m_q)^2) / (2 s_q^2) - 1/2, for each element.
CT_API Tensor kl_divergence(const Normal& p, const Normal& q);

}  // namespace distributions
}  // namespace ct
