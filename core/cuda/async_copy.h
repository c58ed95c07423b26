#pragma once

#include <cuda_runtime.h>

// Copies from global to shared memory that a thread does not wait for. For .cu files only.

namespace ct::gpu {

/// Requests 16 bytes; both addresses are multiples of 16. They pass by the registers and the first-level
/// cache, and are there, for this thread alone, after copy_async_wait().
__device__ __forceinline__ void copy_async(uint4* to_shared, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to_shared))),
               "l"(from)
               : "memory");
}

/// Waits for all that the thread has requested.
__device__ __forceinline__ void copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace ct::gpu
