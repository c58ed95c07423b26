#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/loss/reduction.h>

// Losses that are made of elementwise ops and reductions, and get their gradients from them. Unless said otherwise input
// and target have the same shape and floating dtype (nothing is broadcast), and both get gradients. Throw ShapeError,
// DTypeError, DeviceError; ValueError for options out of range.

namespace ct {

struct L1LossOptions {
  Reduction reduction = Reduction::mean;
};
/// |input - target|. The gradient is 0 where they are equal.
CT_API Tensor l1_loss(const Tensor& input, const Tensor& target, const L1LossOptions& options = {});

struct HuberLossOptions {
  Reduction reduction = Reduction::mean;
  double delta = 1;  ///< > 0
};
/// d^2 / 2 for d = |input - target| up to delta, then delta (d - delta / 2) (Huber, 1964).
CT_API Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossOptions& options = {});

struct SmoothL1LossOptions {
  Reduction reduction = Reduction::mean;
  double beta = 1;  ///< >= 0
};
/// huber_loss() with delta = beta, divided by beta; with beta = 0, l1_loss().
CT_API Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                             const SmoothL1LossOptions& options = {});

struct BinaryCrossEntropyOptions {
  Tensor weight = {};  ///< factor of each element's loss; broadcasts to the input. Undefined: 1
  Reduction reduction = Reduction::mean;
};
/// -t ln(p) - (1 - t) ln(1 - p) of probabilities p = input in [0, 1] against targets t in [0, 1]. As in PyTorch a
/// logarithm is at least -100, and the gradient (p - t) / max(p (1 - p), 1e-12); outside of [0, 1] the loss is NaN. For
/// logits use bce_with_logits(), which loses no digits. The mean divides by the number of elements, whatever the weights.
CT_API Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                                   const BinaryCrossEntropyOptions& options = {});

struct KlDivOptions {
  Reduction reduction = Reduction::mean;
  bool batch_mean =
      false;  ///< the sum divided by input.size(0), which is the divergence; `reduction` is not read
  bool log_target = false;  ///< the target is a logarithm, too
};
/// t (ln t - input): the Kullback-Leibler divergence of probabilities t = target from those whose logarithms are the input.
/// Where t is 0, so is the loss.
CT_API Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options = {});

struct GaussianNllLossOptions {
  Reduction reduction = Reduction::mean;
  bool full = false;  ///< adds the constant ln(2 pi) / 2
  double eps = 1e-6;  ///< > 0, the smallest variance
};
/// (ln v + (input - target)^2 / v) / 2: the negative logarithm of a normal density with mean `input` and variance
/// v = max(var, eps). var has the input's shape, or a size 1 in its last axis, or lacks that axis. All three get gradients,
/// var one as if there were no eps.
CT_API Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                                const GaussianNllLossOptions& options = {});

struct CosineSimilarityOptions {
  std::int64_t axis = 1;
  double eps = 1e-8;  ///< > 0, the smallest norm that is divided by
};
/// sum(a b) / (max(|a|, eps) max(|b|, eps)) along an axis, which disappears. a and b broadcast.
CT_API Tensor cosine_similarity(const Tensor& a, const Tensor& b,
                                const CosineSimilarityOptions& options = {});

struct CosineEmbeddingLossOptions {
  double margin = 0;
  Reduction reduction = Reduction::mean;
};
/// 1 - c where the target is 1, max(c - margin, 0) where it is -1, with c the cosine between rows of a and b, which are
/// [n, features] or [features]. The target is [n], or a scalar, of any dtype.
CT_API Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                                    const CosineEmbeddingLossOptions& options = {});

struct PairwiseDistanceOptions {
  double p = 2;
  double eps = 1e-6;  ///< is added to each difference
  bool keepdim = false;
};
/// The p-norm of a - b + eps along the last axis. a and b broadcast.
CT_API Tensor pairwise_distance(const Tensor& a, const Tensor& b,
                                const PairwiseDistanceOptions& options = {});

struct TripletMarginLossOptions {
  double margin = 1;
  double p = 2;
  double eps = 1e-6;
  bool swap = false;  ///< the negative's distance is the smaller of those from anchor and positive
  Reduction reduction = Reduction::mean;
};
/// max(margin + d(anchor, positive) - d(anchor, negative), 0) with d the pairwise_distance() (Balntas et al., 2016).
CT_API Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                  const TripletMarginLossOptions& options = {});

}  // namespace ct
