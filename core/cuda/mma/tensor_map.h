#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

// The driver's function that describes a tensor to Hopper's copy engine. For CUDA translation units only.

namespace ct::mma {

using TensorMapEncoder = decltype(&cuTensorMapEncodeTiled);

/// Asked of the runtime once, so that nothing is linked with the driver; null where the driver is too old.
inline TensorMapEncoder tensor_map_encoder() {
  static const TensorMapEncoder function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = {};
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
    return status == cudaSuccess && result == cudaDriverEntryPointSuccess
               ? reinterpret_cast<TensorMapEncoder>(found)
               : nullptr;
  }();
  return function;
}

}  // namespace ct::mma
