#include "examples/gpt/loop.h"

#include <cotangent/nn/capture/capture.h>
#include <cotangent/ops/autocast.h>

#include <limits>

#include "examples/gpt/schedule.h"

using ct::Tensor;

Tensor loss_of(const LanguageModel& model, const Options& o, const Tensor& x, const Tensor& y) {
  std::optional<ct::Autocast> guard;
  if (o.dtype == "bf16" || o.dtype == "f16") guard.emplace(parse_dtype(o.dtype));
  return model.loss(x, y, {.fused = o.fused_loss});
}

bool train_steps(const Learner& learner, const Options& o, Batches& batches, Place& at, Watch& watch) {
  auto& [model, optimizer, scaler, averages, _, ranks] = learner;
  // The norm is measured even without a limit.
  const double limit = o.clip > 0 ? o.clip : std::numeric_limits<double>::infinity();
  const ct::CaptureOptions captured{.enabled = learner.captured};
  auto learn = ct::capture(
      [&](const Tensor& x, const Tensor& y, bool last) {
        const auto alone = last ? nullptr : ranks.alone();
        const Tensor loss = loss_of(model, o, x, y);
        scaler.scale(loss / static_cast<double>(o.accumulate)).backward();  // its share of the step
        return loss;
      },
      captured);
  auto update = ct::capture(
      [&] {
        scaler.unscale_(optimizer);
        const Tensor norm = ct::optim::clip_grad_norm_(model.parameters(), limit);
        scaler.step(optimizer);
        scaler.update();
        optimizer.zero_grad();
        if (averages) averages->update();
        return norm;
      },
      captured);
  for (; at.step < o.iters; ++at.step) {
    if (!watch.before_step()) return false;
    while (at.micro < o.accumulate) {
      const auto& [x, y] = batches.next();
      const Tensor loss = learn(x, y, ranks.size() == 1 || at.micro + 1 == o.accumulate);
      ++at.micro;
      if (!watch.after_batch(loss, x, y)) return false;
    }
    optimizer.set_lr(learning_rate(o, at.step));
    const Tensor norm = update();
    at.micro = 0;
    watch.after_step(norm);
  }
  return true;
}
