#pragma once

#include <cstdint>

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/random/draw.h>

namespace ct::sampling {

struct Attrs {
  double temperature;
  std::int64_t top_k;
  double top_p;
  GeneratorState draw;
};

/// The weight of a logit: e^((x - max) / temperature), as an integer.
CT_HD inline std::uint64_t weight_of(double x, double max, double temperature, int bits) {
  return random::weight(random::exp_exact(detail::div_exact(x - max, temperature)), 1.0, bits);
}

/// Part of `total` that the weights that top_p keeps must reach.
CT_HD inline std::uint64_t kept_mass(double top_p, std::uint64_t total) {
  const auto mass = static_cast<std::uint64_t>(top_p * static_cast<double>(total));
  return mass < 1 ? 1 : mass > total ? total : mass;
}

/// Refuses row r of the logits unless it is `good`.
inline void check_row(bool good, std::int64_t r) {
  CT_CHECK(good, ValueError, "sample_logits", "row ", r,
           " of the logits has a NaN or +inf, or nothing but -inf; look for what diverged");
}

}  // namespace ct::sampling
