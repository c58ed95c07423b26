#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cotangent/core/simd/vector.h>

namespace ct::simd {

/// memcpy, which alone would fall into a trap: from 2 KB on the C library takes an instruction ("rep movsb") that makes 2 to 3
/// bytes a nanosecond on AMD's Zen 3 and 4, of 70, where `to` lies a few bytes behind `from` within a page (sourceware.org, bug
/// 30994). Tensors begin at the same place of a page, so that is what a slice from the second element on asks for, or pad().
template <int kBytes = kVectorBytes>
inline void copy(void* to, const void* from, std::size_t bytes) {
  const std::size_t behind =
      (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % 4096;
  if (bytes > 2048 && behind > 0 && behind < 64) {
    char* const out = static_cast<char*>(to);
    const char* const in = static_cast<const char*>(from);
    const auto move_last = [&](std::size_t end) {
      using Bytes = detail::RawInMemory<std::uint8_t, kBytes>;
      detail::Raw<std::uint8_t, kBytes> x = *reinterpret_cast<const Bytes*>(in + end - kBytes);
      detail::keep_raw(x);  // or the compiler makes it a memcpy
      *reinterpret_cast<Bytes*>(out + end - kBytes) = x;
    };
    // Backwards, where no load seems to wait for the store before it; and to whole vectors, the last one twice in part.
    move_last(bytes);
    bytes -= (reinterpret_cast<std::uintptr_t>(out) + bytes) % kBytes;
#pragma GCC unroll 4
    for (; bytes >= kBytes; bytes -= kBytes) move_last(bytes);
  }
  std::memcpy(to, from, bytes);
}

}  // namespace ct::simd
