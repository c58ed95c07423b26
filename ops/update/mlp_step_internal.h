#pragma once

#include <cotangent/core/op/op_call.h>
#include <cotangent/ops/update/mlp_step.h>
#include <cotangent/ops/update/rules_internal.h>

// Inputs of mlp_step as its kernels read them.

namespace ct::update::mlp {

/// Weights and biases of three layers, [out, in] and [out], in the order of the parameters of a Sequential.
inline constexpr int kParameters = 6;

/// A number of the network and its two moments, or where they begin.
struct Held {
  float *param, *m, *v;
};

struct Call {
  const float* x;
  const std::int64_t* labels;
  std::int64_t* steps;
  float* losses;
  Held held[kParameters];
  std::int64_t count, batch, in, hidden[2], classes;
  AdamRule rule;

  explicit Call(const Forward& call) : rule{call.attrs<AdamAttrs>()} {
    const Tensor &first = call.in(0), &second = call.in(kFirst + 6);
    x = first.data<float>(), labels = call.in(1).data<std::int64_t>();
    steps = call.in(2).data<std::int64_t>(), losses = call.in(3).data<float>();
    for (std::size_t i = 0; i < kParameters; ++i) {
      const auto at = [&](std::size_t which) { return call.in(kFirst + 3 * i + which).data<float>(); };
      held[i] = {at(0), at(1), at(2)};
    }
    count = first.size(0), batch = first.size(1), in = first.size(2);
    hidden[0] = second.size(1), hidden[1] = second.size(0);
    classes = call.in(kFirst + 12).size(0);
  }

  static constexpr std::size_t kFirst = 4;  // input of the first parameter, whose moments follow it
};

}  // namespace ct::update::mlp
