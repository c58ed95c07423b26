#include "examples/mnist/model.h"

#include <cotangent/nn/parallel/data_parallel.h>

#include <cmath>

namespace nn = ct::nn;
using ct::Tensor;

nn::Sequential make_model(const Options& o, const ct::dist::Group& ranks) {
  nn::Sequential model;
  std::int64_t in = 784;
  if (o.model == "cnn") {
    // Three times what windows of 3 x 3 show, of images of 28, 14 and 7 pixels a side. Strides shrink them, which costs
    // nothing, where pools would cost as much as the convolutions.
    std::int64_t channels = 1;
    for (const std::int64_t more : {32, 64, 128}) {
      // The norm that follows takes a bias away again.
      model
          .append(
              nn::Conv2d(channels, more, 3, {.stride = channels == 1 ? 1 : 2, .padding = 1, .bias = false}))
          .append(nn::SyncBatchNorm(more, ranks))
          .append(nn::ReLU());
      channels = more;
    }
    in = channels * 7 * 7;
  }
  model.append(nn::Flatten{});
  for (const std::int64_t hidden : o.hidden) {
    model.append(nn::Linear(in, hidden)).append(nn::ReLU());
    if (o.dropout > 0) model.append(nn::Dropout(o.dropout));
    in = hidden;
  }
  model.append(nn::Linear(in, 10));
  return model;
}

std::unique_ptr<ct::optim::Optimizer> make_optimizer(const Options& o, const std::vector<Tensor>& params) {
  using namespace ct::optim;
  if (o.optimizer == "sgd")
    return std::make_unique<SGD>(
        params, SGDOptions{.lr = o.lr, .momentum = o.momentum, .weight_decay = o.weight_decay});
  if (o.optimizer == "adamw")
    return std::make_unique<AdamW>(params, AdamWOptions{.lr = o.lr, .weight_decay = o.weight_decay});
  return std::make_unique<Adam>(params, AdamOptions{.lr = o.lr, .weight_decay = o.weight_decay});
}

double schedule(const std::string& kind, double step, double total) {
  const double warm = 0.05 * total;
  if (kind == "warmup-cosine" && step < warm) return (step + 1) / (warm + 1);
  if (kind == "cosine" || kind == "warmup-cosine") return 0.5 * (1 + std::cos(M_PI * step / total));
  if (kind == "step") return step < 0.5 * total ? 1 : step < 0.75 * total ? 0.1 : 0.01;
  return 1;
}
