#pragma once

#include <cstdint>

// The compiler's own vectors, and the conversions of core/base/dtype.h between f32 and f16 where no instruction does them: of all
// lanes at once.

#define CT_INLINE inline __attribute__((always_inline))

namespace ct::simd::detail {

template <class T, int kBytes>
struct RawOf {
  typedef T type __attribute__((vector_size(kBytes)));
  typedef T in_memory __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
};
// The compiler's own vectors; and as they lie among elements.
template <class T, int kBytes>
using Raw = typename RawOf<T, kBytes>::type;
template <class T, int kBytes>
using RawInMemory = typename RawOf<T, kBytes>::in_memory;

template <int kBytes>
CT_INLINE Raw<float, kBytes> from_half(Raw<std::uint16_t, kBytes / 2> bits) {
  using Words = Raw<std::uint32_t, kBytes>;
  using Signs = Raw<std::int32_t, kBytes>;
  const Words word = __builtin_convertvector(bits, Words), magnitude = word & 0x7fffu;
  // A subnormal one is what it adds to 2^-14: no f32 is subnormal, which programs may have told the processor to take for 0.
  const Words number = (magnitude << 13) + 0x38000000u;
  const Words tiny = (Words)((Raw<float, kBytes>)(number + 0x00800000u) - 0x1p-14f);
  const Words special = (Words)((Signs)magnitude > 0x7bff) & 0x7f800000u;
  return (Raw<float, kBytes>)(((Signs)magnitude < 0x400 ? tiny : number) | special | (word & 0x8000u) << 16);
}

template <int kBytes>
CT_INLINE Raw<std::uint16_t, kBytes / 2> to_half(Raw<float, kBytes> x) {
  using Words = Raw<std::uint32_t, kBytes>;
  const Words word = (Words)x, magnitude = word & 0x7fffffffu;
  const auto size = (Raw<std::int32_t, kBytes>)magnitude;
  Words half = (magnitude + 0xc8000fffu + (magnitude >> 13 & 1u)) >> 13;
  half = size < 0x38800000 ? (Words)((Raw<float, kBytes>)magnitude + 0.5f) - 0x3f000000u : half;
  half = size < 0x477ff000 ? half : half * 0 + 0x7c00u;
  half = size > 0x7f800000 ? half * 0 + 0x7e00u : half;
  return __builtin_convertvector(half | (word >> 16 & 0x8000u), Raw<std::uint16_t, kBytes / 2>);
}

}  // namespace ct::simd::detail
