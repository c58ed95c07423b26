#pragma once

#include <cotangent/cotangent.h>

#include <cstdint>
#include <functional>

// The training loop by itself. The code around it (figures, checkpoints, Ctrl-C, a loss that is no number) is in
// training.cpp, and hears of each step through a Watch.

using Loader = ct::data::DataLoader<ct::data::ImageDataset>;

class Watch {
 public:
  virtual ~Watch() = default;
  /// The gradients are there, the update is not made yet.
  virtual void before_update(const ct::Tensor& loss, const ct::Tensor& x, const ct::Tensor& y) = 0;
  /// The update is made; false ends the pass here.
  virtual bool after_update(const ct::Tensor& loss, const ct::Tensor& logits, const ct::Tensor& x,
                            const ct::Tensor& y) = 0;
};

/// One pass over the images of `batches`, or the rest of one that was resumed. `augment` gives the images to learn from,
/// `rate` the learning rate of a step, counted over all passes from 0. `captured`: forward and backward are captured, and
/// replayed. False if `watch` ended it.
bool train_epoch(const ct::nn::Sequential& model, ct::optim::Optimizer& optimizer, Loader& batches,
                 const std::function<ct::Tensor(const ct::Tensor&)>& augment,
                 const std::function<double(std::int64_t)>& rate, bool captured, Watch& watch);
