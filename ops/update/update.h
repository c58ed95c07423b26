#pragma once

#include <cstdint>

// Ops that write many tensors at once: steps of optimizers, clipping, loss scaling, averages. Optimizers call them
// (nn/optim); README.md has their formulas and inputs. Here are their attributes, for observers (core/op/op_observer.h): a
// call of "adam_step" has call.forward->attrs<update::AdamAttrs>().

namespace ct::update {

// The lr of a step is the learning rate, or a factor on that in the input lr. Its max_norm is that of clip_to_norm, for a step
// that has the input norm and clips the gradients by itself; without one it means nothing.

/// Attributes of sgd_step.
struct SgdAttrs {
  double lr = 0, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  double max_norm = 0;
};

/// Attributes of adam_step; AdamW's weight decay is decoupled.
struct AdamAttrs {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  bool decoupled = false, amsgrad = false;
  double max_norm = 0;
};

/// Attributes of rmsprop_step.
struct RmspropAttrs {
  double lr = 0, alpha = 0, eps = 0, weight_decay = 0, momentum = 0;
  bool centered = false;
  double max_norm = 0;
};

/// Attributes of adagrad_step.
struct AdagradAttrs {
  double lr = 0, lr_decay = 0, eps = 0, weight_decay = 0, initial_accumulator_value = 0, max_norm = 0;
};

/// Attributes of lion_step.
struct LionAttrs {
  double lr = 0, beta1 = 0, beta2 = 0, weight_decay = 0, max_norm = 0;
};

/// Attributes of total_norm: p of the p-norm, which may be infinity.
struct NormAttrs {
  double p = 2;
};

/// Attributes of clip_to_norm: norms above this one are scaled to it.
struct ClipAttrs {
  double max_norm = 0;
};

/// Attributes of clip_values: the largest magnitude that elements keep.
struct ClampAttrs {
  double limit = 0;
};

/// Attributes of average_step. With warmup the decay of update t is min(decay, (1 + t) / (10 + t)).
struct AverageAttrs {
  double decay = 0;
  bool warmup = false;
};

/// Attributes of update_scale.
struct ScaleAttrs {
  double growth = 2, backoff = 0.5;
  std::int64_t interval = 0;
};
/// Places of the numbers of a loss scale, a tensor f32[3].
enum ScaleNumber : int { kScale, kInverse, kGoodSteps, kScaleNumbers };

}  // namespace ct::update
