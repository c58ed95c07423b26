#pragma once

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/nn/optim/adam.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>

#include <cmath>
#include <memory>

#include "bench/ladders/gradient.h"

// A step of AdamW, its second one, over several parameters. Shared by both devices; a case is tensors, numbers in each.

namespace ct::ladder::adamw {

inline constexpr float kLr = 1e-3f, kBeta1 = 0.9f, kBeta2 = 0.999f, kEps = 1e-8f, kDecay = 1e-2f;

/// Factors of the formula at the second step: p <- keep p - rate m / (sqrt(v) by + eps).
struct Factors {
  float keep = 1 - kLr * kDecay;
  float rate = kLr / static_cast<float>(1 - std::pow(0.9, 2)),
        by = static_cast<float>(1 / std::sqrt(1 - std::pow(0.999, 2)));
};

/// Number i of tensor t, of p, g, m, v (0 to 3), stands in input i + which * tensors; of p, m, v (0 to 2) in that output.
inline std::size_t place(const Call& c, int which, std::int64_t t) {
  return static_cast<std::size_t>(which * c.size(0) + t);
}

/// The library's optimizer, put where the inputs are, takes one step further in each call.
inline Tensors stepped(const Tensors& in) {
  struct Started {
    Tensors params, results;
    std::shared_ptr<optim::AdamW> optimizer;
  };
  const Started& started = kept<Started>(in, [](const Tensors& given) {
    const std::size_t count = given.size() / 4;
    const EnableGrad recorded;
    Started s;
    for (std::size_t t = 0; t < count; ++t) s.params.push_back(given[t].clone().set_requires_grad());
    s.optimizer =
        std::make_shared<optim::AdamW>(s.params, optim::AdamWOptions{kLr, kBeta1, kBeta2, kEps, kDecay});
    for (std::size_t t = 0; t < count; ++t) s.params[t].set_grad(given[count + t].clone());
    s.optimizer->step();
    const NoGrad unrecorded;
    const StateDict state = s.optimizer->state_dict();
    Tensors m, v;
    for (std::size_t t = 0; t < count; ++t) {
      const std::string name = "0." + std::to_string(t);
      s.params[t].copy_(given[t]);
      m.push_back(state.at(name + ".exp_avg"));
      v.push_back(state.at(name + ".exp_avg_sq"));
      m[t].copy_(given[2 * count + t]);
      v[t].copy_(given[3 * count + t]);
      s.results.push_back(s.params[t].detach());
    }
    s.results.insert(s.results.end(), m.begin(), m.end());
    s.results.insert(s.results.end(), v.begin(), v.end());
    return s;
  });
  started.optimizer->step();
  return started.results;
}

/// The ladder but for its cases and rungs: 4 numbers are read for each parameter, and 3 written.
inline Ladder described(DeviceType device) {
  return {.name = "adamw",
          .what = "a step of AdamW, tensors x numbers in each",
          .device = device,
          .unit = Unit::bytes,
          .small = {{f32, {3, 1000}}, {f32, {70, 37}}, {f32, {1, 1}}},
          .timed = {},
          .work = [](const Case& c) { return 28.0 * static_cast<double>(c.size[0] * c.size[1]); },
          .inputs = [](const Case& c) -> Tensors {
            Tensors in;
            for (std::int64_t t = 0; t < 4 * c.size[0]; ++t) {
              const Tensor x = randn({c.size[1]});
              in.push_back(t < 3 * c.size[0] ? x : x * x);
            }
            return in;
          },
          .plain = stepped,
          .library = stepped,
          .library_name = "ct::optim::AdamW"};
}

/// Tensor t of a call, and where its results go.
struct Pointers {
  const float *p, *g, *m, *v;
  float *to_p, *to_m, *to_v;
};
inline Pointers of(const Call& c, std::int64_t t) {
  const auto in = [&](int which) { return static_cast<const float*>(c.in[place(c, which, t)].raw_data()); };
  const auto out = [&](int which) { return static_cast<float*>(c.out[place(c, which, t)].raw_data()); };
  return {in(0), in(1), in(2), in(3), out(0), out(1), out(2)};
}

}  // namespace ct::ladder::adamw
