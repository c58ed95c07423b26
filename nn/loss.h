#pragma once

#include <string>

#include <cotangent/core/base/export.h>
#include <cotangent/nn/module.h>
#include <cotangent/ops/loss/classes/cross_entropy.h>
#include <cotangent/ops/loss/classes/nll_loss.h>
#include <cotangent/ops/loss/composed.h>
#include <cotangent/ops/loss/element/bce_with_logits.h>
#include <cotangent/ops/loss/element/mse_loss.h>

// Losses as modules: the functions of ops/ with their options kept. Weights are buffers, so that they move
// with the module; they are not part of state_dict().

namespace ct::nn {

namespace detail {
/// A loss function with its options kept.
template <auto kFunction, class Options>
class FunctionLoss : public Module {
 public:
  template <class... Inputs>
  Tensor forward(const Inputs&... inputs) const {
    return kFunction(inputs..., options_);
  }
  template <class... Inputs>
  Tensor operator()(const Inputs&... inputs) const {
    return call(*this, inputs...);
  }

 protected:
  FunctionLoss(const char* type, const Options& options) : options_(options) {
    describe_as(type, "reduction=" + std::string(ct::name(options.reduction)));
  }

 private:
  Options options_;
};
}  // namespace detail

/// ct::mse_loss
class CT_API MSELoss : public detail::FunctionLoss<mse_loss, MseLossOptions> {
 public:
  explicit MSELoss(const MseLossOptions& options = {}) : FunctionLoss("MSELoss", options) {}
};

/// ct::l1_loss
class CT_API L1Loss : public detail::FunctionLoss<l1_loss, L1LossOptions> {
 public:
  explicit L1Loss(const L1LossOptions& options = {}) : FunctionLoss("L1Loss", options) {}
};

/// ct::smooth_l1_loss
class CT_API SmoothL1Loss : public detail::FunctionLoss<smooth_l1_loss, SmoothL1LossOptions> {
 public:
  explicit SmoothL1Loss(const SmoothL1LossOptions& options = {}) : FunctionLoss("SmoothL1Loss", options) {}
};

/// ct::huber_loss
class CT_API HuberLoss : public detail::FunctionLoss<huber_loss, HuberLossOptions> {
 public:
  explicit HuberLoss(const HuberLossOptions& options = {}) : FunctionLoss("HuberLoss", options) {}
};

/// ct::kl_div
class CT_API KLDivLoss : public detail::FunctionLoss<kl_div, KlDivOptions> {
 public:
  explicit KLDivLoss(const KlDivOptions& options = {}) : FunctionLoss("KLDivLoss", options) {}
};

/// ct::gaussian_nll_loss
class CT_API GaussianNLLLoss : public detail::FunctionLoss<gaussian_nll_loss, GaussianNllLossOptions> {
 public:
  explicit GaussianNLLLoss(const GaussianNllLossOptions& options = {})
      : FunctionLoss("GaussianNLLLoss", options) {}
};

/// ct::cosine_embedding_loss
class CT_API CosineEmbeddingLoss
    : public detail::FunctionLoss<cosine_embedding_loss, CosineEmbeddingLossOptions> {
 public:
  explicit CosineEmbeddingLoss(const CosineEmbeddingLossOptions& options = {})
      : FunctionLoss("CosineEmbeddingLoss", options) {}
};

/// ct::triplet_margin_loss
class CT_API TripletMarginLoss : public detail::FunctionLoss<triplet_margin_loss, TripletMarginLossOptions> {
 public:
  explicit TripletMarginLoss(const TripletMarginLossOptions& options = {})
      : FunctionLoss("TripletMarginLoss", options) {}
};

/// ct::binary_cross_entropy
class CT_API BCELoss : public Module {
 public:
  explicit BCELoss(BinaryCrossEntropyOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;
  Tensor operator()(const Tensor& input, const Tensor& target) const { return call(*this, input, target); }

 private:
  BinaryCrossEntropyOptions options_;  // without the weight
  Buffer weight_;
};

/// ct::bce_with_logits
class CT_API BCEWithLogitsLoss : public Module {
 public:
  explicit BCEWithLogitsLoss(BceWithLogitsOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;
  Tensor operator()(const Tensor& input, const Tensor& target) const { return call(*this, input, target); }

 private:
  Reduction reduction_;
  Buffer weight_, pos_weight_;
};

/// ct::nll_loss
class CT_API NLLLoss : public Module {
 public:
  explicit NLLLoss(NllLossOptions options = {});
  Tensor forward(const Tensor& log_probs, const Tensor& target) const;
  Tensor operator()(const Tensor& log_probs, const Tensor& target) const {
    return call(*this, log_probs, target);
  }

 private:
  NllLossOptions options_;  // without the weight
  Buffer weight_;
};

/// ct::cross_entropy
class CT_API CrossEntropyLoss : public Module {
 public:
  explicit CrossEntropyLoss(CrossEntropyOptions options = {});
  Tensor forward(const Tensor& logits, const Tensor& target) const;
  Tensor operator()(const Tensor& logits, const Tensor& target) const { return call(*this, logits, target); }

 private:
  CrossEntropyOptions options_;  // without the weight
  Buffer weight_;
};

}  // namespace ct::nn
