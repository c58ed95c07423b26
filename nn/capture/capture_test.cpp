#include <cotangent/nn/capture/capture.h>

#include "tests/capture_testing.h"
#include "tests/catch.h"
#include "tests/training_testing.h"

// A captured step ends in the bits of the plain one.

using namespace ct;
using namespace ct::testing;

namespace {

void check_steps(Device device) {
  SECTION("loss, dropout, clipping, AdamW, a schedule") {
    auto [net, step] = check_same_bits({.device = device}, batches(9, 7, device));
    CHECK(step.captured());
    CHECK(step.recordings() == 2);
    CHECK(step.replays() == 6);
  }
  SECTION("batch statistics") {
    check_same_bits({.batch_norm = true, .device = device}, batches(7, 7, device));
  }
  SECTION("shapes that change: each is recorded") {
    auto [net, step] = check_same_bits({.device = device}, batches(14, 7, device, true));
    CHECK(step.recordings() == 4);
    CHECK(step.replays() == 8);
  }
  SECTION("16 bits with masters") {
    auto [net, step] = check_same_bits({.device = device, .dtype = bf16}, batches(7, 7, device));
    CHECK(step.recordings() == 2);
    check_same_bits({.device = device, .dtype = f16}, batches(7, 7, device));
  }
  SECTION("f64") { check_same_bits({.device = device, .dtype = f64}, batches(7, 7, device)); }
}

template <class O, class... A>
NetOptions with(Device device, A... options) {
  NetOptions o{.device = device};
  o.optimizer = [options...](std::vector<Tensor> p) { return std::make_unique<O>(std::move(p), options...); };
  return o;
}

void check_optimizers(Device device) {
  using namespace optim;
  const std::vector<Batch> data = batches(7, 7, device);
  check_same_bits(with<SGD>(device, SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}), data);
  check_same_bits(with<Adam>(device, AdamOptions{.lr = 0.01, .amsgrad = true}), data);
  check_same_bits(with<Adagrad>(device, AdagradOptions{.lr = 0.01}), data);
  check_same_bits(with<RMSprop>(device, RMSpropOptions{.lr = 0.01, .momentum = 0.5, .centered = true}), data);
  check_same_bits(with<Lion>(device, LionOptions{.lr = 0.01}), data);
  NetOptions muon{.device = device};
  muon.optimizer = [](std::vector<Tensor> p) {
    std::erase_if(p, [](const Tensor& t) { return t.dim() != 2; });
    return std::make_unique<Muon>(std::move(p), MuonOptions{.lr = 0.01});
  };
  check_same_bits(muon, data);
}

// Steps of a small GPT with accumulation, clipping, AdamW, averages, a scaler that leaves steps out, and a schedule.
enum class Steps { plain, one, two };  // captured as one function, or as two

void check_gpt(const Techniques& how) {
  const auto run = [&](Steps steps) {
    manual_seed(8);
    TinyTraining t(how);
    const auto update = [&] {
      t.scaler.unscale_(t.adam);
      const Tensor norm = optim::clip_grad_norm_(t.model.parameters(), 1.0);
      t.scaler.step(t.adam);
      t.scaler.update();
      t.adam.zero_grad();
      t.schedule.step();
      t.ema.update();
      return norm;
    };
    const auto micro = [&](const Tensor& x, const Tensor& y, bool updates) {
      std::optional<Autocast> guard;
      if (how.autocast) guard.emplace(*how.autocast);
      Tensor loss = t.model.loss(x, y, {.fused = how.fused_loss});
      guard.reset();
      t.scaler.scale(loss / how.accumulate).backward();
      if (updates) update();
      return loss;
    };
    auto step = capture(micro, {.enabled = steps != Steps::plain});
    auto apart = capture(update);
    std::string losses;
    for (int epoch = 0; epoch < 3; ++epoch)
      for (const auto& [x, y] : t.batches) {
        const bool updates = ++t.seen % how.accumulate == 0;
        losses += bytes_of(step(x, y, updates && steps != Steps::two).to(cpu));
        if (updates && steps == Steps::two) losses += bytes_of(apart().to(cpu)).substr(0, 0);
      }
    if (steps != Steps::plain) CHECK(step.replays() > t.seen / 3);
    if (steps == Steps::two) CHECK(apart.replays() > t.seen / (5 * how.accumulate));
    return losses + t.result();
  };
  const std::string plain = run(Steps::plain);
  CHECK((run(Steps::one) == plain));
  CHECK((run(Steps::two) == plain));
}

void check_gpts(Device device) {
  SECTION("f32") { check_gpt({.device = device}); }
  SECTION("every batch an update") { check_gpt({.accumulate = 1, .device = device}); }
  SECTION("autocast bf16") { check_gpt({.autocast = bf16, .device = device}); }
  SECTION("autocast f16, scaled") { check_gpt({.autocast = f16, .device = device}); }
  SECTION("bf16 weights with masters") { check_gpt({.weights = bf16, .device = device}); }
  SECTION("f16 weights, scaled, recomputed") {
    check_gpt({.weights = f16, .recompute = true, .device = device});
  }
  SECTION("recompute") { check_gpt({.recompute = true, .device = device}); }
}

}  // namespace

TEST_CASE("a captured step ends in the bits of the step", "[capture]") { check_steps(cpu); }
TEST_CASE("a captured step ends in the bits of the step on a GPU", "[capture][cuda]") {
  check_steps(cuda(0));
}
TEST_CASE("captured steps of every optimizer end in the bits of the step", "[capture]") {
  check_optimizers(cpu);
}
TEST_CASE("captured steps of every optimizer end in the bits of the step on a GPU", "[capture][cuda]") {
  check_optimizers(cuda(0));
}
TEST_CASE("captured micro-steps and updates of a GPT end in the bits of plain ones", "[capture]") {
  check_gpts(cpu);
}
TEST_CASE("captured micro-steps and updates of a GPT end in the bits of plain ones on a GPU",
          "[capture][cuda]") {
  check_gpts(cuda(0));
}
