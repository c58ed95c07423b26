#include "examples/mnist/loop.h"

using ct::Tensor;

bool train_epoch(const ct::nn::Sequential& model, ct::optim::Optimizer& optimizer, Loader& batches,
                 const std::function<Tensor(const Tensor&)>& augment,
                 const std::function<double(std::int64_t)>& rate, bool captured, Watch& watch) {
  auto gradients = ct::capture(
      [&](const Tensor& x, const Tensor& y) {
        optimizer.zero_grad();
        const Tensor logits = model.forward(x);
        const Tensor loss = ct::cross_entropy(logits, y);
        loss.backward();
        return std::pair(loss, logits);
      },
      {.enabled = captured});
  const std::int64_t first_step = batches.epoch() * batches.size();
  for (const auto& [images, y] : batches) {
    const Tensor x = augment(images);
    optimizer.set_lr(rate(first_step + batches.position() - 1));
    const auto [loss, logits] = gradients(x, y);
    watch.before_update(loss, x, y);
    optimizer.step();
    if (!watch.after_update(loss, logits, x, y)) return false;
  }
  return true;
}
