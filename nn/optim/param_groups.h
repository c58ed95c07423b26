#pragma once

#include <utility>
#include <vector>

#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/module.h>
#include <cotangent/nn/optim/optimizer.h>

namespace ct::optim {

/// Parameters in two groups: matrices and tensors of higher rank (weights, embeddings) with `options` as they
/// are, vectors and numbers (biases, gains of norms) with weight_decay 0. Shrinking a gain or a bias towards
/// 0 regularises nothing. Parameters that require no gradient are left out, and so is a group without any.
///
///     ct::optim::AdamW adamw(ct::optim::decay_groups(model, ct::optim::AdamWOptions{.weight_decay = 0.1}));
template <class Options>
std::vector<ParamGroup<Options>> decay_groups(const std::vector<Tensor>& params, const Options& options) {
  ParamGroup<Options> decayed{{}, options}, kept{{}, options};
  kept.options.weight_decay = 0;
  for (const Tensor& p : params)
    if (p.requires_grad()) (p.dim() >= 2 ? decayed : kept).params.push_back(p);
  std::vector<ParamGroup<Options>> groups;
  for (ParamGroup<Options>* group : {&decayed, &kept})
    if (!group->params.empty()) groups.push_back(std::move(*group));
  return groups;
}
template <class Options>
std::vector<ParamGroup<Options>> decay_groups(const nn::Module& module, const Options& options) {
  return decay_groups(module.parameters(), options);
}

}  // namespace ct::optim
