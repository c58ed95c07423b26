#pragma once

#include <cstdint>

#include <cotangent/core/cuda/divider.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/walk/plan.h>

// Walking two layouts on the device. For .cu files only.

namespace ct {

namespace detail {

struct StridedParams {
  int rank;
  std::int64_t numel;
  std::int64_t size[kMaxRank];
  std::int64_t dst[kMaxRank];
  std::int64_t src[kMaxRank];
  gpu::Divider divisors[kMaxRank];
};

inline constexpr int kStridedThreads = 256;
inline constexpr int kStridedPerThread = 4;

template <bool kSmall, class Element>
__global__ void __launch_bounds__(kStridedThreads)
    strided_kernel(const __grid_constant__ StridedParams p, const Element element) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (kStridedThreads * kStridedPerThread) + threadIdx.x;
#pragma unroll
  for (int u = 0; u < kStridedPerThread; ++u) {
    const std::int64_t at = first + u * kStridedThreads;
    if (at >= p.numel) return;
    std::int64_t d = 0, s = 0;
    if constexpr (kSmall) {
      std::uint32_t rest = static_cast<std::uint32_t>(at);
#pragma unroll
      for (int i = kMaxRank - 1; i >= 0; --i) {
        if (i >= p.rank) continue;
        const std::uint32_t quotient = p.divisors[i].divide(rest);
        const std::uint32_t index = rest - quotient * p.divisors[i].divisor;
        rest = quotient;
        d += index * p.dst[i];
        s += index * p.src[i];
      }
    } else {
      std::int64_t rest = at;
      for (int i = p.rank - 1; i >= 0; --i) {
        const std::int64_t quotient = rest / p.size[i];
        const std::int64_t index = rest - quotient * p.size[i];
        rest = quotient;
        d += index * p.dst[i];
        s += index * p.src[i];
      }
    }
    element(d, s);
  }
}

}  // namespace detail

/// Calls element(dst_offset, src_offset) on the device once for every element of the plan.
template <class Element>
void for_each_strided(const char* op, const CopyPlan& plan, const Element& element) {
  detail::StridedParams p;
  p.rank = plan.rank;
  p.numel = plan.numel;
  const bool small = plan.numel <= 0x7fffffff;
  for (int i = 0; i < plan.rank; ++i) {
    p.size[i] = plan.size[i];
    p.dst[i] = plan.dst[i];
    p.src[i] = plan.src[i];
    if (small) p.divisors[i] = gpu::Divider(static_cast<std::uint32_t>(plan.size[i]));
  }
  const unsigned blocks =
      gpu::blocks_for(op, plan.numel, detail::kStridedThreads * detail::kStridedPerThread);
  if (small) {
    gpu::launch(op, detail::strided_kernel<true, Element>, blocks, detail::kStridedThreads, 0, p, element);
  } else {
    gpu::launch(op, detail::strided_kernel<false, Element>, blocks, detail::kStridedThreads, 0, p, element);
  }
}

}  // namespace ct
