#pragma once

#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/normalization/layer_norm.h>

#include "bench/ladders/gradient.h"

// The gradients of layer_norm: a row's dx needs two sums along the row, dw and db need one down each column. Shared by both
// devices; a case is rows, their length.

namespace ct::ladder::layer_norm_backward {

inline constexpr float kEps = 1e-5f;

inline Tensor forward(const Tensors& in) { return ct::layer_norm(in[0], in[1], in[2], kEps); }

/// The ladder but for its cases and rungs. Inputs x, w, b, g; outputs dx, dw, db. x and g are read once, dx is written.
inline Ladder described(DeviceType device) {
  return {.name = "layer_norm_backward",
          .what = "dx, dw, db of y = layer_norm(x) w + b, rows x their length",
          .device = device,
          .unit = Unit::bytes,
          .small = {{f32, {37, 1000}}, {f32, {3, 5}}, {f32, {1, 64}}},
          .timed = {},
          .work = [](const Case& c) { return 12.0 * static_cast<double>(c.size[0] * c.size[1]); },
          .inputs = [](const Case& c) -> Tensors {
            return {randn({c.size[0], c.size[1]}), randn({c.size[1]}), randn({c.size[1]}),
                    randn({c.size[0], c.size[1]})};
          },
          .plain = gradients<forward, 3>,
          .library = gradients<forward, 3>,
          .library_name = "backward of ct::layer_norm",
          .slack = 20};  // sums over all rows
}

}  // namespace ct::ladder::layer_norm_backward
