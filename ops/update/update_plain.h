#pragma once

#include <algorithm>
#include <cmath>

#include <cotangent/ops/update/update.h>

// Steps of optimizers in the plainest way: what becomes of one number p of a parameter by its gradient g in that parameter's
// t-th step, t from 1 on. The others are running numbers, which begin as zeros. update_test.cpp holds the kernels to them.

namespace ct::plain {

/// b: the running sum of gradients.
inline void sgd_step(const update::SgdAttrs& o, double t, double g, double& p, double& b) {
  g = g + o.weight_decay * p;
  if (o.momentum != 0) {
    b = t == 1 ? g : o.momentum * b + (1 - o.dampening) * g;
    g = o.nesterov ? g + o.momentum * b : b;
  }
  p = p - o.lr * g;
}

/// m, v: averages of g and g^2, both smaller than they should be at first, as they begin with 0; after t steps by the
/// factors 1 - beta1^t and 1 - beta2^t. With amsgrad `largest`, the largest v so far, takes v's place.
inline void adam_step(const update::AdamAttrs& o, double t, double g, double& p, double& m, double& v,
                      double& largest) {
  if (o.decoupled)
    p = (1 - o.lr * o.weight_decay) * p;  // AdamW
  else
    g = g + o.weight_decay * p;
  m = o.beta1 * m + (1 - o.beta1) * g;
  v = o.beta2 * v + (1 - o.beta2) * g * g;
  largest = std::max(largest, v);
  const double m_hat = m / (1 - std::pow(o.beta1, t));
  const double v_hat = (o.amsgrad ? largest : v) / (1 - std::pow(o.beta2, t));
  p = p - o.lr * m_hat / (std::sqrt(v_hat) + o.eps);
}

/// v: the average of g^2; b: the running sum of scaled gradients; mean: the average of g, whose square is taken from v where
/// it is centered.
inline void rmsprop_step(const update::RmspropAttrs& o, double, double g, double& p, double& v, double& b,
                         double& mean) {
  g = g + o.weight_decay * p;
  v = o.alpha * v + (1 - o.alpha) * g * g;
  mean = o.alpha * mean + (1 - o.alpha) * g;
  const double variance = o.centered ? std::max(v - mean * mean, 0.0) : v;
  b = o.momentum * b + g / (std::sqrt(variance) + o.eps);
  p = p - o.lr * b;
}

/// sum: of g^2.
inline void adagrad_step(const update::AdagradAttrs& o, double t, double g, double& p, double& sum) {
  g = g + o.weight_decay * p;
  sum = (t == 1 ? o.initial_accumulator_value : sum) + g * g;
  p = p - o.lr / (1 + (t - 1) * o.lr_decay) * g / (std::sqrt(sum) + o.eps);
}

/// m: the average of g, of which the sign alone is taken.
inline void lion_step(const update::LionAttrs& o, double, double g, double& p, double& m) {
  const double direction = o.beta1 * m + (1 - o.beta1) * g;
  m = o.beta2 * m + (1 - o.beta2) * g;
  const double sign = direction > 0 ? 1 : direction < 0 ? -1 : direction;
  p = (1 - o.lr * o.weight_decay) * p - o.lr * sign;
}

/// An exponential moving average of x.
inline void average_step(const update::AverageAttrs& o, double x, double& average) {
  average = (1 - o.weight) * average + o.weight * x;
}

}  // namespace ct::plain
