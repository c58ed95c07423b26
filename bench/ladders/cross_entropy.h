#pragma once

#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/loss/classes/cross_entropy.h>

#include "bench/ladders/gradient.h"

// The mean cross-entropy of softmax(x) against labels, and its gradient, (softmax(x) - [label]) / rows: forward and backward
// of the last layer of a classifier. Shared by both devices; a case is rows, classes.

namespace ct::ladder::cross_entropy {

/// {loss, dx} of {x, labels}.
inline Tensors both(const Tensors& in) {
  const EnableGrad recorded;
  Tensor x = in[0].detach();
  const Tensor loss = ct::cross_entropy(x.set_requires_grad(), in[1]);
  return {loss.detach(), grad(loss, x)};
}

/// The ladder but for its cases and rungs. x is read once at the least, dx is written.
inline Ladder described(DeviceType device) {
  return {.name = "cross_entropy",
          .what = "loss and dx of cross_entropy(x, labels), rows x classes",
          .device = device,
          .unit = Unit::bytes,
          .small = {{f32, {37, 1000}}, {f32, {3, 5}}, {f32, {1, 1}}},
          .timed = {},
          .work = [](const Case& c) { return 8.0 * static_cast<double>(c.size[0] * c.size[1]); },
          .inputs = [](const Case& c) -> Tensors {
            return {randn({c.size[0], c.size[1]}), randint(0, c.size[1], {c.size[0]})};
          },
          .plain = both,
          .library = both,
          .library_name = "ct::cross_entropy and backward",
          .slack = 10};
}

}  // namespace ct::ladder::cross_entropy
