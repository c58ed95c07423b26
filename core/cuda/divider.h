#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>

namespace ct::gpu {

/// Division of a 32-bit number by one that is known at launch: a multiplication and a shift (Granlund and Montgomery
/// 1994).
struct Divider {
  std::uint32_t divisor = 1, magic = 0, shift = 0;

  Divider() = default;
  explicit Divider(std::uint32_t d) : divisor(d) {  // d in [1, 2^31]
    while ((std::uint64_t{1} << shift) < d) ++shift;
    magic = static_cast<std::uint32_t>((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - d) / d + 1);
  }
  /// n / divisor for n < 2^31.
  CT_HD std::uint32_t divide(std::uint32_t n) const {
#ifdef __CUDA_ARCH__
    return (__umulhi(n, magic) + n) >> shift;
#else
    return (static_cast<std::uint32_t>(std::uint64_t{n} * magic >> 32) + n) >> shift;
#endif
  }
};

}  // namespace ct::gpu
