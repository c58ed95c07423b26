#pragma once

#include <cotangent/core/export.h>
#include <cotangent/nn/module.h>
#include <cotangent/ops/loss/bce_with_logits.h>
#include <cotangent/ops/loss/cross_entropy.h>
#include <cotangent/ops/loss/mse_loss.h>
#include <cotangent/ops/loss/nll_loss.h>

// Losses as modules: the functions of ops/ with their options kept. Weights are buffers, so that they move
// with the module; they are not part of state_dict().

namespace ct::nn {

/// ct::mse_loss
class CT_API MSELoss : public Module {
 public:
  explicit MSELoss(MseLossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;
  Tensor operator()(const Tensor& input, const Tensor& target) const { return forward(input, target); }

 private:
  MseLossOptions options_;
};

/// ct::bce_with_logits
class CT_API BCEWithLogitsLoss : public Module {
 public:
  explicit BCEWithLogitsLoss(BceWithLogitsOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;
  Tensor operator()(const Tensor& input, const Tensor& target) const { return forward(input, target); }

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
    return forward(log_probs, target);
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
  Tensor operator()(const Tensor& logits, const Tensor& target) const { return forward(logits, target); }

 private:
  CrossEntropyOptions options_;  // without the weight
  Buffer weight_;
};

}  // namespace ct::nn
