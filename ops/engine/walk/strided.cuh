#pragma once

#include <algorithm>
#include <cstdint>

#include <cotangent/core/cuda/divider.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/walk/plan.h>

// Walking two layouts on the device. For .cu files only.

namespace ct {

namespace walk {

struct StridedParams {
  int rank;
  std::int64_t numel;
  std::int64_t dst_first, src_first;
  std::int64_t dst[kMaxRank];
  std::int64_t src[kMaxRank];
  gpu::Divider divisors[kMaxRank];
};

inline constexpr int kStridedThreads = 256;
inline constexpr int kStridedPerThread = 4;

template <class Element>
__global__ void __launch_bounds__(kStridedThreads)
    strided_kernel(const __grid_constant__ StridedParams p, const Element element) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (kStridedThreads * kStridedPerThread) + threadIdx.x;
#pragma unroll
  for (int u = 0; u < kStridedPerThread; ++u) {
    const std::int64_t at = first + u * kStridedThreads;
    if (at >= p.numel) return;
    std::int64_t d = p.dst_first, s = p.src_first;
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
    element(d, s);
  }
}

}  // namespace walk

/// Calls element(dst_offset, src_offset) on the device once for every element of the plan, whose offsets count from the
/// two last arguments. Elements are numbered in 32 bits: a launch for each half of a plan of 2^31 or more.
template <class Element>
void for_each_strided(const char* op, const CopyPlan& plan, const Element& element,
                      std::int64_t dst_first = 0, std::int64_t src_first = 0) {
  if (plan.numel > 0x7fffffff) {
    const auto axis = std::max_element(plan.size.begin(), plan.size.begin() + plan.rank) - plan.size.begin();
    for (const std::int64_t begin : {std::int64_t{0}, plan.size[axis] / 2}) {
      CopyPlan half = plan;
      half.size[axis] = begin == 0 ? plan.size[axis] / 2 : plan.size[axis] - begin;
      half.numel = plan.numel / plan.size[axis] * half.size[axis];
      for_each_strided(op, half, element, dst_first + begin * plan.dst[axis],
                       src_first + begin * plan.src[axis]);
    }
    return;
  }
  walk::StridedParams p;
  p.rank = plan.rank;
  p.numel = plan.numel;
  p.dst_first = dst_first;
  p.src_first = src_first;
  for (int i = 0; i < plan.rank; ++i) {
    p.dst[i] = plan.dst[i];
    p.src[i] = plan.src[i];
    p.divisors[i] = gpu::Divider(static_cast<std::uint32_t>(plan.size[i]));
  }
  gpu::launch(op, walk::strided_kernel<Element>,
              gpu::blocks_for(op, plan.numel, walk::kStridedThreads * walk::kStridedPerThread),
              walk::kStridedThreads, 0, p, element);
}

}  // namespace ct
