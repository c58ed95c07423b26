#include "examples/mnist/loop.h"

using ct::Tensor;

bool train_epoch(const ct::nn::Sequential& model, ct::optim::Optimizer& optimizer, Loader& batches,
                 const std::function<Tensor(const Tensor&)>& augment,
                 const std::function<double(std::int64_t)>& rate, Watch& watch) {
  const std::int64_t first_step = batches.epoch() * batches.size();
  for (const auto& [images, y] : batches) {
    const Tensor x = augment(images);
    optimizer.set_lr(rate(first_step + batches.position() - 1));
    optimizer.zero_grad();
    const Tensor logits = model.forward(x);
    const Tensor loss = ct::cross_entropy(logits, y);
    loss.backward();
    watch.before_update(loss, x, y);
    optimizer.step();
    if (!watch.after_update(loss, logits, x, y)) return false;
  }
  return true;
}
