#pragma once

// Ops that are composed here until they have rooms of their own.

#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <vector>

#include <cotangent/ops/binary/binary.h>
#include <cotangent/ops/concat/concat.h>
#include <cotangent/ops/creation.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/unary/unary.h>

namespace ct::nn::pending {

inline Tensor swiglu(const Tensor& gate, const Tensor& up) { return silu(gate) * up; }
struct RotaryScaling {
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  std::int64_t original_length = 8192;
};
struct RotaryOptions {
  double base = 10000;
  bool interleaved = false;
  std::int64_t rotary_dim = 0;
  std::optional<RotaryScaling> scaling = {};
};
inline Tensor rotary_embedding(const Tensor& x, const Tensor& positions, const RotaryOptions& o = {}) {
  const auto D = x.size(-1);
  std::vector<double> inv;
  for (int i = 0; i < D / 2; ++i) {
    double f = std::pow(o.base, -2.0 * i / D);
    if (o.scaling) {
      const auto& s = *o.scaling;
      const double w = 2 * std::numbers::pi / f, L = s.original_length;
      const double low = L / s.low_freq_factor, high = L / s.high_freq_factor;
      if (w > low)
        f /= s.factor;
      else if (w > high) {
        double t = (L / w - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
        f = (1 - t) * f / s.factor + t * f;
      }
    }
    inv.push_back(f);
  }
  Tensor a = positions.to(f64).unsqueeze(-1) * from_vector(inv).to(x.device());
  Tensor c = cos(a).to(x.dtype()), s = sin(a).to(x.dtype());
  Tensor x1 = x.narrow(-1, 0, D / 2), x2 = x.narrow(-1, D / 2, D / 2);
  return concat({x1 * c - x2 * s, x2 * c + x1 * s}, -1);
}
}  // namespace ct::nn::pending
