#pragma once

#include <utility>

#include <cotangent/core/simd/wide.h>

namespace ct::simd {

/// low += the first half of x, and high the second, in f64.
template <int kBytes>
CT_INLINE void add_wide(Vector<double, kBytes>& low, Vector<double, kBytes>& high, Vector<float, kBytes> x) {
  if constexpr (kBytes > kVectorBytes) {
    add_wide(low.low, low.high, x.low);
    add_wide(high.low, high.high, x.high);
  } else {
    const auto half = [&]<int... i>(std::integer_sequence<int, i...>, auto from) {
      return __builtin_shufflevector(x.v, x.v, (i + from())...);
    };
    using Doubles = detail::Raw<double, kBytes>;
    using Lanes = std::make_integer_sequence<int, kBytes / 8>;
    const auto first = half(Lanes{}, [] { return 0; }), second = half(Lanes{}, [] { return kBytes / 8; });
#if defined(__AVX512F__)
    if constexpr (kBytes == 64) {  // the compiler would go by way of quarters
      low.v += (Doubles)_mm512_maskz_cvtps_pd(0xff, (__m256)first);
      high.v += (Doubles)_mm512_maskz_cvtps_pd(0xff, (__m256)second);
      return;
    }
#endif
    low.v += __builtin_convertvector(first, Doubles);
    high.v += __builtin_convertvector(second, Doubles);
  }
}

}  // namespace ct::simd
