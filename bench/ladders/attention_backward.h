#pragma once

#include <cotangent/ops/attention/attention.h>
#include <cotangent/ops/creation/creation.h>

#include "bench/ladders/gradient.h"

// Gradients of y = softmax(q k^T / 8) v, 64 channels: with p the probabilities, from g: dp_ij = g_i v_j, ds_ij = p_ij (dp_ij - sum_j
// p_ij dp_ij) / 8; dq_i = sum_j ds_ij k_j, dk_j = sum_i ds_ij q_i, dv_j = sum_i p_ij g_i. Shared by both devices; a case is heads, positions.

namespace ct::ladder::attention_backward {

inline constexpr std::int64_t kD = 64;

inline Tensor forward(const Tensors& in) { return ct::scaled_dot_product_attention(in[0], in[1], in[2]); }

/// The ladder but for its cases and rungs. Inputs q, k, v, g; outputs dq, dk, dv: five products of T x T x 64.
inline Ladder described(DeviceType device) {
  return {
      .name = "attention_backward",
      .what = "dq, dk, dv of y = softmax(q k^T / 8) v, heads x positions, 64 channels",
      .device = device,
      .small = {{f32, {3, 37}}, {f32, {1, 2}}, {f32, {2, 128}}},
      .timed = {},
      .work =
          [](const Case& c) { return 10.0 * kD * static_cast<double>(c.size[0] * c.size[1] * c.size[1]); },
      .inputs = [](const Case& c) -> Tensors {
        const auto one = [&] { return randn({c.size[0], 1, c.size[1], kD}); };
        return {one(), one(), one(), one()};
      },
      .plain = gradients<forward, 3>,
      .library = gradients<forward, 3>,
      .library_name = "backward of ct::scaled_dot_product_attention",
      .slack = 10};
}

}  // namespace ct::ladder::attention_backward
