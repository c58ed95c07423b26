#pragma once

#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/fusion/fuse.h>

#include "bench/ladders/gradient.h"

// Gradients of a chain of element-wise ops, y = silu(x + b) m with silu(u) = u s(u), s(u) = 1 / (1 + e^-u): from g, with u = x + b,
// dx = g m (s + u s (1 - s)) and dm = g u s. Shared by both devices; a case is n numbers.

namespace ct::ladder::chain {

inline Tensor forward(const Tensors& in) {
  static const auto& fused = *new auto(fuse([](auto x, auto m, auto b) { return silu(x + b) * m; }));
  return fused(in[0], in[1], in[2]);
}

/// The ladder but for its cases and rungs. Inputs x, m, b, g; outputs dx, dm: 24 bytes a number.
inline Ladder described(DeviceType device) {
  return {.name = "chain",
          .what = "dx, dm of y = silu(x + b) m, n numbers",
          .device = device,
          .unit = Unit::bytes,
          .small = {{f32, {100'003}}, {f32, {1}}},
          .timed = {},
          .work = [](const Case& c) { return 24.0 * static_cast<double>(c.size[0]); },
          .inputs = [](const Case& c) -> Tensors {
            return {randn({c.size[0]}), randn({c.size[0]}), randn({c.size[0]}), randn({c.size[0]})};
          },
          .plain = gradients<forward, 2>,
          .library = gradients<forward, 2>,
          .library_name = "backward of ct::fuse"};
}

}  // namespace ct::ladder::chain
