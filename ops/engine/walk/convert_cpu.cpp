#include <algorithm>
#include <array>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cotangent/core/base/convert_element.h>
#include <cotangent/core/simd/vector.h>
#include <cotangent/ops/engine/walk/convert_cpu.h>

namespace ct::walk {
namespace {

// Never inlined: conversions by way of f32 are two of the others.
template <class To, class From>
[[gnu::noinline]] void convert_run(void* dst, const void* src, std::int64_t n) {
  // Bools are read as bytes: memory from elsewhere may hold other values than 0 and 1.
  using Raw = std::conditional_t<std::is_same_v<From, bool>, std::uint8_t, From>;
  To* __restrict to = static_cast<To*>(dst);
  const Raw* __restrict from = static_cast<const Raw*>(src);
  if constexpr ((std::is_same_v<To, float> && simd::is_16_bit<From>) ||
                (simd::is_16_bit<To> && std::is_same_v<From, float>)) {
    simd::convert_run(from, n, to);
  } else if constexpr (!std::is_same_v<To, From> && (simd::is_16_bit<To> || simd::is_16_bit<From>)) {
    // Every other conversion of 16 bits is one by way of f32 (core/base/convert_element.h).
    float wide[256];
    for (std::int64_t i = 0; i < n; i += 256) {
      const std::int64_t m = std::min<std::int64_t>(256, n - i);
      convert_run<float, From>(wide, from + i, m);
      convert_run<To, float>(to + i, wide, m);
    }
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<From, bool>) {
        to[i] = convert_element<To>(from[i] != 0);
      } else {
        to[i] = convert_element<To>(from[i]);
      }
    }
  }
}

// Indexed by the numbers of DType.
template <int N>
using ElementType = std::tuple_element_t<
    N, std::tuple<float, double, Half, BFloat16, std::int64_t, std::int32_t, std::uint8_t, bool>>;

template <std::size_t... I>
constexpr auto make_converters(std::index_sequence<I...>) {
  return std::array<ConvertRun, sizeof...(I)>{
      &convert_run<ElementType<I / kDTypeCount>, ElementType<I % kDTypeCount>>...};
}
constexpr auto kConverters = make_converters(std::make_index_sequence<kDTypeCount * kDTypeCount>());

}  // namespace

ConvertRun converter(DType to, DType from) {
  return kConverters[static_cast<std::size_t>(to) * kDTypeCount + static_cast<std::size_t>(from)];
}

}  // namespace ct::walk
