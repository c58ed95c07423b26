#pragma once

#include <cstdint>

#include <cotangent/core/base/philox.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct::random {

/// Element i of n: start + i * step. With `from_end`, the second half is end - (n - 1 - i) * step instead.
/// `integer` computes in i64.
struct Sequence {
  double start = 0, step = 0, end = 0;
  std::int64_t integer_start = 0, integer_step = 0;
  bool from_end = false;
  bool integer = false;
};

CT_HD inline double sequence_value(const Sequence& s, std::int64_t i, std::int64_t n) {
  if (s.from_end && i >= n - n / 2) return detail::fma_exact(static_cast<double>(n - 1 - i), -s.step, s.end);
  return detail::fma_exact(static_cast<double>(i), s.step, s.start);
}

// The sum is in range, i * step alone need not be: unsigned arithmetic wraps around and back.
CT_HD inline std::int64_t integer_sequence_value(const Sequence& s, std::int64_t i) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(s.integer_start) +
                                   static_cast<std::uint64_t>(i) *
                                       static_cast<std::uint64_t>(s.integer_step));
}

/// Distribution that random_* draws from: u * scale + offset with u uniform, normal or exponential, or integers in [low, high).
struct Draw {
  enum class Kind { uniform, normal, exponential, integer };
  Kind kind = Kind::uniform;
  double offset = 0, scale = 1;
  std::int64_t low = 0, high = 0;
  GeneratorState state;
};

// A uniform number as an element of a 16-bit type: cut to the bits that the type has, so that it stays
// below 1.
template <int kBits>
CT_HD inline float cut_uniform(float u) {
  constexpr float scale = static_cast<float>(1 << kBits);
  return static_cast<float>(static_cast<int>(u * scale)) * (1 / scale);
}

}  // namespace ct::random
