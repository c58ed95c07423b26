#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <cotangent/cotangent.h>
#include <cotangent/nn/io/checkpoint.h>
#include <cotangent/nn/models/gpt2.h>

#include "tests/nn_testing.h"

// A very small GPT with all that belongs to training one, for tests of whole steps.

namespace ct::testing {

struct Techniques {
  std::optional<DType> autocast = {};
  DType weights = f32;  // 16 bits: with masters
  double dropout = 0.1;
  bool recompute = false;
  bool fused_loss = true;
  int accumulate = 3;
  Device device = cpu;
  int workers = 0;
  std::int64_t width = 16;
};

class TinyTraining {
 public:
  explicit TinyTraining(const Techniques& how)
      : how_(how),
        model(moved(how)),
        batches(
            data::TokenDataset(text(), {.block = kBlock, .random = false, .vocab_size = kVocabulary}),
            {.batch_size = 4, .shuffle = true, .workers = how.workers, .seed = 11, .prefetch = how.device}),
        adam(optim::decay_groups(model, optim::AdamWOptions{.lr = 3e-3, .weight_decay = 0.1})),
        schedule(adam, [](std::int64_t t) { return t < 4 ? (t + 1) / 5.0 : 1 / (1 + 0.1 * t); }),
        ema(model, {.decay = 0.9, .warmup = true}),
        // A scale that is too large at first and soon grows: steps are left out, and the scale moves.
        scaler({.init_scale = 0x1p24,
                .growth_interval = 3,
                .enabled = how.weights == f16 || how.autocast == f16}),
        gradients(model) {}

  /// Trains until `epochs` of the text have been seen; `after` is called behind each batch, and may end it by
  /// returning false.
  template <class After>
  void train(std::int64_t epochs, After&& after) {
    while (batches.epoch() < epochs)
      for (const auto& [x, y] : batches) {
        one_batch(x, y);
        if (!after()) return;
      }
  }

  void one_batch(const Tensor& x, const Tensor& y) {
    {
      std::optional<Autocast> guard;
      if (how_.autocast) guard.emplace(*how_.autocast);
      loss = model.loss(x, y, {.fused = how_.fused_loss});
    }
    scaler.scale(loss / how_.accumulate).backward();
    loss = loss.detach();
    ++seen;
    if (++micro < how_.accumulate) return;
    scaler.unscale_(adam);
    norm = optim::clip_grad_norm_(model.parameters(), 1.0);
    scaler.step(adam);
    scaler.update();
    adam.zero_grad();
    schedule.step();
    ema.update();
    micro = 0;
    ++steps;
  }

  void save(const std::string& path) {
    StateDict extras;
    extras.set_value("steps", steps);
    extras.set_value("micro", micro);
    extras.set_value("seen", seen);
    io::save_checkpoint(path,
                        {{"model", model},
                         {"adam", adam},
                         {"schedule", schedule},
                         {"batches", batches},
                         {"scaler", scaler},
                         {"gradients", gradients},
                         {"ema", ema}},
                        extras);
  }
  void load(const std::string& path) {
    const StateDict extras = io::load_checkpoint(path, {{"model", model},
                                                        {"adam", adam},
                                                        {"schedule", schedule},
                                                        {"batches", batches},
                                                        {"scaler", scaler},
                                                        {"gradients", gradients},
                                                        {"ema", ema}});
    steps = extras.value<std::int64_t>("steps");
    micro = static_cast<int>(extras.value<std::int64_t>("micro"));
    seen = extras.value<std::int64_t>("seen");
  }

  /// Every bit that training changes.
  std::string result() const {
    std::string bytes;
    for (const StateDict& p :
         {model.state_dict(), adam.state_dict(), gradients.state_dict(), ema.state_dict()})
      for (const auto& [name, tensor] : p) bytes += name + bytes_of(tensor.to(cpu).contiguous());
    return bytes + std::to_string(default_generator().offset()) + ' ' + std::to_string(steps) + ' ' +
           std::to_string(micro) + ' ' + std::to_string(schedule.time()) + ' ' +
           std::to_string(scaler.get_scale());
  }

  static constexpr std::int64_t kBlock = 8, kVocabulary = 23, kWindows = 54;

 private:
  Techniques how_;

  static nn::models::Gpt2Config config(const Techniques& how) {
    nn::models::Gpt2Config c;
    c.vocab_size = kVocabulary, c.n_positions = kBlock, c.n_embd = how.width, c.n_layer = 2, c.n_head = 2;
    c.embd_pdrop = c.attn_pdrop = c.resid_pdrop = how.dropout;
    c.recompute = how.recompute;
    return c;
  }
  static nn::models::Gpt2 moved(const Techniques& how) {
    nn::models::Gpt2 made(config(how));
    made.to(how.device, how.weights);
    return made;
  }
  static data::Tokens text() {
    std::vector<std::int64_t> tokens;
    for (std::int64_t i = 0; i < kWindows * kBlock + 1; ++i) tokens.push_back((i * i + i / 7) % kVocabulary);
    return data::Tokens::from_vector(tokens);
  }

 public:
  nn::models::Gpt2 model;
  data::DataLoader<data::TokenDataset> batches;
  optim::AdamW adam;
  optim::LambdaLR schedule;
  optim::Ema ema;
  optim::GradScaler scaler;
  optim::GradientState gradients;
  std::int64_t steps = 0, seen = 0;
  int micro = 0;
  Tensor loss, norm;
};

}  // namespace ct::testing
