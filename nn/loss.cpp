#include <cotangent/nn/loss.h>

#include <string>
#include <utility>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/base/error.h>

namespace ct::nn {
namespace {

std::string text(Reduction reduction) { return "reduction=" + std::string(name(reduction)); }

// The options with the weight as it is now, wherever the module has been moved.
template <class Options>
Options with_weight(Options options, const Buffer& weight) {
  options.weight = weight.tensor();
  return options;
}

}  // namespace

BCELoss::BCELoss(BinaryCrossEntropyOptions options)
    : options_(std::move(options)),
      weight_(buffer("weight", std::exchange(options_.weight, {}), {.persistent = false})) {
  describe_as("BCELoss", text(options_.reduction));
}

Tensor BCELoss::forward(const Tensor& input, const Tensor& target) const {
  return binary_cross_entropy(input, target, with_weight(options_, weight_));
}

BCEWithLogitsLoss::BCEWithLogitsLoss(BceWithLogitsOptions options)
    : reduction_(options.reduction),
      weight_(buffer("weight", std::move(options.weight), {.persistent = false})),
      pos_weight_(buffer("pos_weight", std::move(options.pos_weight), {.persistent = false})) {
  describe_as("BCEWithLogitsLoss", text(reduction_));
}

Tensor BCEWithLogitsLoss::forward(const Tensor& input, const Tensor& target) const {
  return bce_with_logits(
      input, target,
      {.weight = weight_.tensor(), .pos_weight = pos_weight_.tensor(), .reduction = reduction_});
}

NLLLoss::NLLLoss(NllLossOptions options)
    : options_(std::move(options)),
      weight_(buffer("weight", std::exchange(options_.weight, {}), {.persistent = false})) {
  describe_as("NLLLoss", text(options_.reduction));
}

Tensor NLLLoss::forward(const Tensor& log_probs, const Tensor& target) const {
  return nll_loss(log_probs, target, with_weight(options_, weight_));
}

CrossEntropyLoss::CrossEntropyLoss(CrossEntropyOptions options)
    : options_(std::move(options)),
      weight_(buffer("weight", std::exchange(options_.weight, {}), {.persistent = false})) {
  ct::detail::check_probability("CrossEntropyLoss", "label_smoothing", options_.label_smoothing);
  describe_as("CrossEntropyLoss",
              ct::detail::cat(text(options_.reduction), ", label_smoothing=", options_.label_smoothing));
}

Tensor CrossEntropyLoss::forward(const Tensor& logits, const Tensor& target) const {
  return cross_entropy(logits, target, with_weight(options_, weight_));
}

}  // namespace ct::nn
