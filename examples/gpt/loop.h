#pragma once

#include <cotangent/cotangent.h>

#include <cstdint>
#include <optional>

#include "examples/common/ranks.h"
#include "examples/gpt/model.h"
#include "examples/gpt/options.h"

// The training loop by itself. The code around it (evaluations, samples, checkpoints, Ctrl-C, the clock) is
// in training.cpp, and hears of each step through a Watch.

using Loader = ct::data::DataLoader<ct::data::TokenDataset>;

/// Endless batches. Each is taken when it is needed, so that the loader's place is that of the training.
class Batches {
 public:
  explicit Batches(Loader& loader) : loader_(loader) {}
  const Loader::Batch& next() {
    if (at_) {
      ++*at_;
    } else {
      at_.emplace(loader_.begin());
    }
    return **at_;
  }

 private:
  Loader& loader_;
  std::optional<Loader::Iterator> at_;
};

/// Model in training, with its optimizer, gradient scaler and averages.
struct Learner {
  LanguageModel& model;
  ct::optim::Optimizer& optimizer;
  ct::optim::GradScaler& scaler;  // does nothing but for f16
  ct::optim::Ema* averages;       // null: none are kept
  bool captured;                  // steps are captured, and replayed
  const Ranks& ranks;
};

/// Updates made, and batches of the next one.
struct Place {
  std::int64_t step = 0, micro = 0;
};

class Watch {
 public:
  virtual ~Watch() = default;
  /// Before the batches of a step, and before those left of one that was resumed; false ends the training.
  virtual bool before_step() = 0;
  /// A batch's gradients have been added; false ends the training.
  virtual bool after_batch(const ct::Tensor& loss, const ct::Tensor& x, const ct::Tensor& y) = 0;
  /// The weights are updated. `norm`: of the gradient before it was clipped.
  virtual void after_step(const ct::Tensor& norm) = 0;
};

/// The mean loss of a batch, in the dtype that --dtype asks for.
ct::Tensor loss_of(const LanguageModel& model, const Options& options, const ct::Tensor& x,
                   const ct::Tensor& y);

/// Trains from `at` to the last of --iters steps, each of --accumulate batches. False if `watch` ended it.
bool train_steps(const Learner& learner, const Options& options, Batches& batches, Place& at, Watch& watch);
