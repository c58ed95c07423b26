#pragma once

#include <cstdint>

#include <cotangent/core/base/philox.h>

// Drawing a position with given weights, the same one on the CPU and on CUDA. The weights are made integers,
// whose sums have no rounding and no order: a block may add them up as it likes, and where the running sum
// passes a random number does not depend on it. On the way to the integers there are only operations that
// IEEE 754 defines to the last bit (see core/base/philox.h).

namespace ct::random {

/// Number of bits of a weight such that n of them add up in 63.
CT_HD constexpr int weight_bits(std::int64_t n) {
  int bits = 62;
  while (bits > 0 && n > std::int64_t{1} << (62 - bits)) --bits;
  return bits;
}

/// w / top as an integer of that many bits, for 0 <= w <= top. A weight below 2^-bits of the largest one is
/// never drawn; of 50,000 weights that is one in 10^13.
CT_HD inline std::uint64_t weight(double w, double top, int bits) {
  return static_cast<std::uint64_t>(detail::div_exact(w, top) *
                                    static_cast<double>(std::uint64_t{1} << bits));
}

/// e^x for x <= 0, to 3e-16 relative; 0 below -708. With k the nearest integer to x / log 2, x - k log 2 is
/// put into the Taylor series, whose first term left out is 4e-18.
CT_HD inline double exp_exact(double x) {
  if (!(x > -708.0)) return 0;
  constexpr double kMagic = 0x1.8p52;  // rounds to an integer, which is then in the lower bits
  const double shifted = detail::fma_exact(x, 0x1.71547652b82fep+0, kMagic);
  const double k = shifted - kMagic;
  double r = detail::fma_exact(-k, 0x1.62e42fefa39efp-1, x);
  r = detail::fma_exact(-k, 0x1.abc9e3b39803fp-56, r);
  double p = 0x1.6124613a86d09p-33;                    // 1 / 13!
  p = detail::fma_exact(p, r, 0x1.1eed8eff8d898p-29);  // 1 / 12!
  p = detail::fma_exact(p, r, 0x1.ae64567f544e4p-26);
  p = detail::fma_exact(p, r, 0x1.27e4fb7789f5cp-22);
  p = detail::fma_exact(p, r, 0x1.71de3a556c734p-19);
  p = detail::fma_exact(p, r, 0x1.a01a01a01a01ap-16);
  p = detail::fma_exact(p, r, 0x1.a01a01a01a01ap-13);
  p = detail::fma_exact(p, r, 0x1.6c16c16c16c17p-10);
  p = detail::fma_exact(p, r, 0x1.1111111111111p-7);
  p = detail::fma_exact(p, r, 0x1.5555555555555p-5);
  p = detail::fma_exact(p, r, 0x1.5555555555555p-3);
  p = detail::fma_exact(p, r, 0.5);
  p = detail::fma_exact(p, r, 1.0);
  p = detail::fma_exact(p, r, 1.0);
  const auto exponent = static_cast<std::uint64_t>(static_cast<std::int64_t>(k) + 1023);
  return p * __builtin_bit_cast(double, exponent << 52);
}

/// The random number below `total` that belongs to element i of a draw. total > 0.
CT_HD inline std::uint64_t target(const GeneratorState& draw, std::uint64_t i, std::uint64_t total) {
  return bounded_from(philox_word64(draw, i), total);
}

/// The position where the sum of the weights passes r, for r below the sum of them all.
CT_HD inline std::int64_t walk(const std::uint64_t* weights, std::uint64_t r) {
  std::int64_t i = 0;
  while (r >= weights[i]) r -= weights[i++];
  return i;
}

}  // namespace ct::random
