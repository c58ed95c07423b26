#pragma once

#include <cuda_runtime_api.h>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/export.h>

// For CUDA translation units only.

namespace ct::gpu {

/// Throws CudaError: "[op] call failed: <CUDA's name and text>; <what to do>". Also takes the error off
/// the runtime's record, so that it is not reported again by the next launch.
[[noreturn]] CT_API void throw_cuda_error(const char* op, const char* call, cudaError_t status);

}  // namespace ct::gpu

/// Runs a CUDA runtime call on behalf of `op` and throws CudaError unless it succeeds.
#define CT_CUDA_OP(op, call)                                    \
  do {                                                          \
    const cudaError_t ct_cuda_status = (call);                  \
    if (ct_cuda_status != cudaSuccess) [[unlikely]]             \
      ::ct::gpu::throw_cuda_error((op), #call, ct_cuda_status); \
  } while (false)

/// The same where no op is concerned.
#define CT_CUDA(call) CT_CUDA_OP("cuda", call)
