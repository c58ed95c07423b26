#pragma once

#include <bit>
#include <cstdint>

// exp for loops that the compiler vectorises: no tables, no branches, no calls.
//
// exp(x) = 2^k exp(r) with k = round(x / log 2) and |r| <= log(2) / 2, where log 2 is split into a part of
// few bits, whose product with k is exact, and a rest. exp(r) is its Taylor polynomial, of degree 7 for float
// (truncation 5e-9) and 13 for double (4e-18); the result is within 1 ulp (float) and 2 ulp (double). 2^k is
// multiplied in two steps, so that results down to the smallest subnormal and up to infinity come out.
// exp(-inf) = 0, exp(inf) = inf, exp(NaN) = NaN.

namespace ct {

inline float vector_exp(float x) {
  x = x < -104.0f ? -104.0f : x;  // comparisons with NaN are false: it passes
  x = x > 89.0f ? 89.0f : x;
  const float t = x * 0x1.715476p+0f + 0x1.8p23f;  // the low bits of t are k
  const float k = t - 0x1.8p23f;
  float r = x - k * 0x1.62e4p-1f;
  r = r - k * 0x1.7f7d1cp-20f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  const std::int32_t n = std::bit_cast<std::int32_t>(t) - 0x4b400000, half = n >> 1;
  const auto power = [](std::int32_t e) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(e + 127) << 23);
  };
  return p * power(half) * power(n - half);
}

inline double vector_exp(double x) {
  x = x < -746.0 ? -746.0 : x;
  x = x > 710.0 ? 710.0 : x;
  const double t = x * 0x1.71547652b82fep+0 + 0x1.8p52;
  const double k = t - 0x1.8p52;
  double r = x - k * 0x1.62e42fefa38p-1;
  r = r - k * 0x1.ef35793c7673p-45;
  double p = 1.0 / 6227020800;
  p = p * r + 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r * r + r + 1.0;
  const std::int64_t n = std::bit_cast<std::int64_t>(t) - 0x4338000000000000, half = n >> 1;
  const auto power = [](std::int64_t e) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(e + 1023) << 52);
  };
  return p * power(half) * power(n - half);
}

}  // namespace ct
