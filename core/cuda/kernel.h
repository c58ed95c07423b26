#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>

// Parts that kernels have in common, in CUDA translation units and in texts for NVRTC.

namespace ct::gpu {

CT_HD constexpr std::int64_t ceil_div(std::int64_t n, std::int64_t d) { return (n + d - 1) / d; }

#if defined(__CUDACC__)
/// Waits until the kernels before this one have ended and what they wrote can be read. A kernel of launch_waiting() begins with
/// it, in every thread, before it touches memory. The kernel behind it may start, to wait itself, when its last blocks end; at
/// once where they leave most multiprocessors free, for blocks that start among others crowd where those are not.
__device__ __forceinline__ void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (gridDim.x <= 64 && gridDim.y == 1 && gridDim.z == 1)
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
#endif

}  // namespace ct::gpu
