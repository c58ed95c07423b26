#pragma once

#include <cotangent/ops/convolution/convolution.h>
#include <cotangent/ops/creation/creation.h>

#include "bench/ladders/ladder.h"

// y[i, o, p, q] = sum over c, a, b of x[i, c, p + a - 1, q + b - 1] w[o, c, a, b]: a convolution of 3 x 3 with a border of zeros. Shared by
// both devices; a case is images, channels, channels of y, side.

namespace ct::ladder::conv2d {

inline Tensors convolved(const Tensors& in) { return {ct::conv2d(in[0], in[1], {}, {.padding = 1})}; }

/// The ladder but for its cases and rungs.
inline Ladder described(DeviceType device) {
  return {.name = "conv2d",
          .what = "y = conv2d(x, w), 3 x 3, images x channels x channels of y x side",
          .device = device,
          .small = {{f32, {2, 3, 11, 17}}, {f32, {1, 1, 1, 1}}, {f32, {1, 9, 8, 40}}},
          .timed = {},
          .work =
              [](const Case& c) {
                return 18.0 * static_cast<double>(c.size[0] * c.size[1] * c.size[2] * c.size[3] * c.size[3]);
              },
          .inputs = [](const Case& c) -> Tensors {
            return {randn({c.size[0], c.size[1], c.size[3], c.size[3]}), randn({c.size[2], c.size[1], 3, 3})};
          },
          .plain = convolved,
          .library = convolved,
          .library_name = "ct::conv2d",
          .slack = 2};
}

}  // namespace ct::ladder::conv2d
