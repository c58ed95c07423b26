#pragma once

#include <cmath>
#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/generator_state.h>

// Counter-based random numbers, the same bits on the host and on a CUDA device.
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011) turns a
// 128-bit counter and a 64-bit key into four random 32-bit words. Nothing is carried from one element to the
// next, so element i of a draw is a pure function of (seed, offset, i), whichever thread computes it:
//
//     key     = { low(seed), high(seed) }
//     counter = { low(block), high(block), low(offset), high(offset) }
//
//  * 32-bit draws (f32 uniform, f32 normal, words): element i is lane i % 4 of block i / 4.
//  * 64-bit draws (f64 uniform, f64 normal, keys, bounded integers): element i is made of the lanes
//    2 * (i % 2) (high word) and 2 * (i % 2) + 1 (low word) of block i / 2.
//
// seed names the stream, offset counts the draws (see Generator in rng.h), block counts within a draw.
//
// Everything after the bits uses only operations that IEEE 754 defines to the last bit: +, -, *, fma, sqrt,
// division and exact conversions. Products are only ever factors or arguments of an explicit fma, so no
// compiler can contract them into another rounding. That is why log, sin and cos are polynomials here: the
// libraries of the two devices differ in the last bits. The coefficients interpolate the functions at the
// Chebyshev nodes of their interval; the errors given are those of the exact polynomials.

namespace ct {

/// Four random words.
struct PhiloxBlock {
  std::uint32_t word[4];
};

namespace detail {

#if defined(__CUDA_ARCH__)
CT_HD inline float fma_exact(float a, float b, float c) { return __fmaf_rn(a, b, c); }
CT_HD inline double fma_exact(double a, double b, double c) { return __fma_rn(a, b, c); }
CT_HD inline float sqrt_exact(float a) { return __fsqrt_rn(a); }
CT_HD inline double sqrt_exact(double a) { return __dsqrt_rn(a); }
CT_HD inline float div_exact(float a, float b) { return __fdiv_rn(a, b); }
CT_HD inline double div_exact(double a, double b) { return __ddiv_rn(a, b); }
#else
CT_HD inline float fma_exact(float a, float b, float c) { return std::fma(a, b, c); }
CT_HD inline double fma_exact(double a, double b, double c) { return std::fma(a, b, c); }
CT_HD inline float sqrt_exact(float a) { return std::sqrt(a); }
CT_HD inline double sqrt_exact(double a) { return std::sqrt(a); }
CT_HD inline float div_exact(float a, float b) { return a / b; }
CT_HD inline double div_exact(double a, double b) { return a / b; }
#endif

CT_HD inline std::uint32_t low_word(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
CT_HD inline std::uint32_t high_word(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

struct PhiloxRound {
  std::uint32_t c0, c1, c2, c3, k0, k1;

  CT_HD void step() {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2;
    const std::uint32_t n0 = high_word(p1) ^ c1 ^ k0;
    const std::uint32_t n2 = high_word(p0) ^ c3 ^ k1;
    c1 = low_word(p1);
    c3 = low_word(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;  // the golden ratio, and sqrt(3) - 1, as fractions of 2^32
    k1 += 0xBB67AE85u;
  }
};

}  // namespace detail

/// Philox4x32-10 itself. The ten rounds are written out because the vectoriser does not see through a loop.
CT_HD inline PhiloxBlock philox4x32(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2, std::uint32_t c3,
                                    std::uint32_t k0, std::uint32_t k1) {
  detail::PhiloxRound r{c0, c1, c2, c3, k0, k1};
  r.step(), r.step(), r.step(), r.step(), r.step();
  r.step(), r.step(), r.step(), r.step(), r.step();
  return {{r.c0, r.c1, r.c2, r.c3}};
}

/// Block number `block` of a draw.
CT_HD inline PhiloxBlock philox_block(const GeneratorState& draw, std::uint64_t block) {
  using detail::high_word, detail::low_word;
  return philox4x32(low_word(block), high_word(block), low_word(draw.offset), high_word(draw.offset),
                    low_word(draw.seed), high_word(draw.seed));
}

/// Element i of a draw of 32-bit words.
CT_HD inline std::uint32_t philox_word(const GeneratorState& draw, std::uint64_t i) {
  const PhiloxBlock b = philox_block(draw, i / 4);
  const unsigned lane = static_cast<unsigned>(i % 4);
  return lane < 2 ? (lane == 0 ? b.word[0] : b.word[1]) : (lane == 2 ? b.word[2] : b.word[3]);
}

/// Element i of a draw of 64-bit words. Sorting indices by (word, index) gives a random permutation.
CT_HD inline std::uint64_t philox_word64(const GeneratorState& draw, std::uint64_t i) {
  const PhiloxBlock b = philox_block(draw, i / 2);
  const bool second = i % 2 != 0;
  return std::uint64_t{second ? b.word[2] : b.word[0]} << 32 | (second ? b.word[3] : b.word[1]);
}

/// A word as a float in [0, 1): its upper 24 bits over 2^24.
CT_HD inline float uniform_from(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// A 64-bit word as a double in [0, 1): its upper 53 bits over 2^53.
CT_HD inline double uniform_from(std::uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

namespace detail {

// log(u) for normal u > 0. With u = 2^e * m, sqrt(1/2) <= m < sqrt(2) and s = (m - 1) / (m + 1):
// log(u) = e log 2 + 2 s + s^3 P(s^2), where P approximates 2 atanh(s)/s^3 - 2/s^2 to 1.9e-7 (f32), 2.1e-18
// (f64); near u = 1 the first term is 0 and m - 1 exact, so the relative error stays small.
CT_HD inline float log_exact(float u) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, u);
  const std::uint32_t lowest = 0x3f3504f3u;  // the bits of sqrt(1/2)
  const std::int32_t e = static_cast<std::int32_t>(bits - lowest) >> 23;
  const float m = __builtin_bit_cast(float, bits - (static_cast<std::uint32_t>(e) << 23));
  const float s = div_exact(m - 1.0f, m + 1.0f);
  const float t = s * s;
  float p = fma_exact(t, 0x1.2ee656p-2f, 0x1.997c2ep-2f);
  p = fma_exact(t, p, 0x1.55555cp-1f);
  const float r = fma_exact(s * t, p, s + s);
  return fma_exact(static_cast<float>(e), 0x1.62e430p-1f, r);
}

CT_HD inline double log_exact(double u) {
  const std::uint64_t bits = __builtin_bit_cast(std::uint64_t, u);
  const std::uint64_t lowest = 0x3fe6a09e667f3bcdu;  // the bits of sqrt(1/2)
  const std::int64_t e = static_cast<std::int64_t>(bits - lowest) >> 52;
  const double m = __builtin_bit_cast(double, bits - (static_cast<std::uint64_t>(e) << 52));
  const double s = div_exact(m - 1.0, m + 1.0);
  const double t = s * s;
  double p = fma_exact(t, 0x1.0c04595972ab8p-3, 0x1.0fbe83c2cbcf3p-3);
  p = fma_exact(t, p, 0x1.3b1c360763b8ap-3);
  p = fma_exact(t, p, 0x1.745cf901605f7p-3);
  p = fma_exact(t, p, 0x1.c71c720160b47p-3);
  p = fma_exact(t, p, 0x1.2492492476c87p-2);
  p = fma_exact(t, p, 0x1.9999999999a38p-2);
  p = fma_exact(t, p, 0x1.5555555555555p-1);
  const double r = fma_exact(s * t, p, s + s);
  return fma_exact(static_cast<double>(e), 0x1.62e42fefa39efp-1, r);
}

// cos and sin of 2 pi * turn / 2^32 (or 2^64). The quarter turn is split off in integers, without error; the
// rest is y quarter turns, |y| <= 1/2, for which sin(pi/2 y) = y S(y^2) to 4.9e-9 (f32), 5e-18 (f64) relative
// and cos(pi/2 y) = 1 + y^2 C(y^2) to 2e-10, 2e-19.
CT_HD inline void cos_sin_turn(std::uint32_t turn, float& cosine, float& sine) {
  const std::uint32_t quarter = (turn + 0x20000000u) >> 30;
  const float y = static_cast<float>(static_cast<std::int32_t>(turn - (quarter << 30))) * 0x1p-30f;
  const float t = y * y;
  float p = fma_exact(t, -0x1.2d9b40p-8f, 0x1.465ec4p-4f);
  p = fma_exact(t, p, -0x1.4abbbap-1f);
  p = fma_exact(t, p, 0x1.921fb6p+0f);
  const std::uint32_t s = __builtin_bit_cast(std::uint32_t, y * p);
  float q = fma_exact(t, 0x1.db6492p-11f, -0x1.55cb98p-6f);
  q = fma_exact(t, q, 0x1.03c1eap-2f);
  q = fma_exact(t, q, -0x1.3bd3ccp+0f);
  const std::uint32_t c = __builtin_bit_cast(std::uint32_t, fma_exact(t, q, 1.0f));
  const std::uint32_t swap = 0u - (quarter & 1u);  // all ones in odd quarters
  const std::uint32_t cosine_bits = ((c & ~swap) | (s & swap)) ^ (((quarter + 1u) & 2u) << 30);
  const std::uint32_t sine_bits = ((s & ~swap) | (c & swap)) ^ ((quarter & 2u) << 30);
  cosine = __builtin_bit_cast(float, cosine_bits);
  sine = __builtin_bit_cast(float, sine_bits);
}

CT_HD inline void cos_sin_turn(std::uint64_t turn, double& cosine, double& sine) {
  const std::uint64_t quarter = (turn + 0x2000000000000000u) >> 62;
  const double y = static_cast<double>(static_cast<std::int64_t>(turn - (quarter << 62))) * 0x1p-62;
  const double t = y * y;
  double p = fma_exact(t, 0x1.e3f38399551bfp-25, -0x1.e30071afc3e59p-19);
  p = fma_exact(t, p, 0x1.50782fda12d96p-13);
  p = fma_exact(t, p, -0x1.32d2cce2e5b19p-8);
  p = fma_exact(t, p, 0x1.466bc677587f8p-4);
  p = fma_exact(t, p, -0x1.4abbce625be41p-1);
  p = fma_exact(t, p, 0x1.921fb54442d18p+0);
  const std::uint64_t s = __builtin_bit_cast(std::uint64_t, y * p);
  double q = fma_exact(t, -0x1.b2f3eb054afcdp-28, 0x1.f9ce245cada0bp-22);
  q = fma_exact(t, q, -0x1.a6d1eef479be1p-16);
  q = fma_exact(t, q, 0x1.e1f5068688d5bp-11);
  q = fma_exact(t, q, -0x1.55d3c7e3cb241p-6);
  q = fma_exact(t, q, 0x1.03c1f081b5acp-2);
  q = fma_exact(t, q, -0x1.3bd3cc9be45dep+0);
  const std::uint64_t c = __builtin_bit_cast(std::uint64_t, fma_exact(t, q, 1.0));
  const std::uint64_t swap = std::uint64_t{0} - (quarter & 1u);
  const std::uint64_t cosine_bits = ((c & ~swap) | (s & swap)) ^ (((quarter + 1u) & 2u) << 62);
  const std::uint64_t sine_bits = ((s & ~swap) | (c & swap)) ^ ((quarter & 2u) << 62);
  cosine = __builtin_bit_cast(double, cosine_bits);
  sine = __builtin_bit_cast(double, sine_bits);
}

// The radius of the Box-Muller transform. The half step keeps u above 0: the largest radius is 6.76 in f32
// and 8.65 in f64. u may round to 1, which gives radius 0.
CT_HD inline float normal_radius(std::uint32_t word) {
  const float u = fma_exact(static_cast<float>(word), 0x1p-32f, 0x1p-33f);
  return sqrt_exact(-2.0f * log_exact(u));
}
CT_HD inline double normal_radius(std::uint64_t word) {
  const double u = fma_exact(static_cast<double>(word >> 11), 0x1p-53, 0x1p-54);
  return sqrt_exact(-2.0 * log_exact(u));
}

}  // namespace detail

/// Two independent standard normal numbers from two random words (Box and Muller 1958): with u from
/// `radius_word` and an angle from `angle_word`, sqrt(-2 log u) times its cosine and its sine.
CT_HD inline void normals_from(std::uint32_t radius_word, std::uint32_t angle_word, float& first,
                               float& second) {
  const float r = detail::normal_radius(radius_word);
  float c, s;
  detail::cos_sin_turn(angle_word, c, s);
  first = r * c;
  second = r * s;
}
CT_HD inline void normals_from(std::uint64_t radius_word, std::uint64_t angle_word, double& first,
                               double& second) {
  const double r = detail::normal_radius(radius_word);
  double c, s;
  detail::cos_sin_turn(angle_word, c, s);
  first = r * c;
  second = r * s;
}

/// A number of the exponential distribution of rate 1 from a random word: -log u, with u the middle of one of 2^23 (in f64
/// 2^52) pieces of (0, 1), so that it is above 0 and at most 16.7 (36.8).
CT_HD inline float exponential_from(std::uint32_t word) {
  return -detail::log_exact(detail::fma_exact(static_cast<float>(word >> 9), 0x1p-23f, 0x1p-24f));
}
CT_HD inline double exponential_from(std::uint64_t word) {
  return -detail::log_exact(detail::fma_exact(static_cast<double>(word >> 12), 0x1p-52, 0x1p-53));
}

/// The elements of one block of a draw at once: 4 floats or 2 doubles. This is what a kernel calls that fills
/// a tensor; the functions for one element below give the same bits.
CT_HD inline void uniform_block(const GeneratorState& draw, std::uint64_t block, float (&out)[4]) {
  const PhiloxBlock b = philox_block(draw, block);
  for (int i = 0; i < 4; ++i) out[i] = uniform_from(b.word[i]);
}
CT_HD inline void uniform_block(const GeneratorState& draw, std::uint64_t block, double (&out)[2]) {
  const PhiloxBlock b = philox_block(draw, block);
  out[0] = uniform_from(std::uint64_t{b.word[0]} << 32 | b.word[1]);
  out[1] = uniform_from(std::uint64_t{b.word[2]} << 32 | b.word[3]);
}
CT_HD inline void normal_block(const GeneratorState& draw, std::uint64_t block, float (&out)[4]) {
  const PhiloxBlock b = philox_block(draw, block);
  normals_from(b.word[0], b.word[1], out[0], out[1]);
  normals_from(b.word[2], b.word[3], out[2], out[3]);
}
CT_HD inline void normal_block(const GeneratorState& draw, std::uint64_t block, double (&out)[2]) {
  const PhiloxBlock b = philox_block(draw, block);
  normals_from(std::uint64_t{b.word[0]} << 32 | b.word[1], std::uint64_t{b.word[2]} << 32 | b.word[3], out[0],
               out[1]);
}

CT_HD inline void exponential_block(const GeneratorState& draw, std::uint64_t block, float (&out)[4]) {
  const PhiloxBlock b = philox_block(draw, block);
  for (int i = 0; i < 4; ++i) out[i] = exponential_from(b.word[i]);
}
CT_HD inline void exponential_block(const GeneratorState& draw, std::uint64_t block, double (&out)[2]) {
  const PhiloxBlock b = philox_block(draw, block);
  out[0] = exponential_from(std::uint64_t{b.word[0]} << 32 | b.word[1]);
  out[1] = exponential_from(std::uint64_t{b.word[2]} << 32 | b.word[3]);
}

/// How many elements of type T one block holds.
template <class T>
inline constexpr int philox_elements = 16 / static_cast<int>(sizeof(T));

/// Element i of a draw from the uniform distribution on [0, 1). T is float or double.
template <class T>
CT_HD T philox_uniform(const GeneratorState& draw, std::uint64_t i) {
  if constexpr (sizeof(T) == 4) {
    return uniform_from(philox_word(draw, i));
  } else {
    return uniform_from(philox_word64(draw, i));
  }
}

/// Element i of a draw from the standard normal distribution. T is float or double. Elements 2j and 2j + 1
/// share their radius and are independent all the same.
template <class T>
CT_HD T philox_normal(const GeneratorState& draw, std::uint64_t i) {
  constexpr unsigned n = philox_elements<T>;
  T out[n];
  normal_block(draw, i / n, out);
  T value = out[0];
  for (unsigned lane = 1; lane < n; ++lane) value = i % n == lane ? out[lane] : value;
  return value;
}

/// A 64-bit word scaled to [0, bound): floor(word * bound / 2^64). Each value comes up with a probability
/// that differs from 1 / bound by less than 2^-64, a bias of bound / 2^64 relative, too small to be observed.
CT_HD inline std::uint64_t bounded_from(std::uint64_t word, std::uint64_t bound) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(word, bound);
#else
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(word) * bound) >> 64);
#endif
}

/// Element i of a draw of integers from [low, high); high > low is the caller's duty.
CT_HD inline std::int64_t philox_integer(const GeneratorState& draw, std::uint64_t i, std::int64_t low,
                                         std::int64_t high) {
  const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) +
                                   bounded_from(philox_word64(draw, i), span));
}

/// The threshold for which `philox_word(draw, i) < threshold` holds with probability p: p * 2^32, rounded.
/// A 64-bit number, so that p = 1 lets every word pass.
CT_HD inline std::uint64_t bernoulli_threshold(double p) {
  return static_cast<std::uint64_t>(p <= 0 ? 0.0 : p >= 1 ? 0x1p32 : p * 0x1p32 + 0.5);
}

}  // namespace ct
