#include <cotangent/core/cuda/launch.h>

#include <mutex>
#include <unordered_map>

namespace ct::gpu::detail {

bool& launches_early() noexcept {
  static thread_local bool early = false;
  return early;
}

void allow_dynamic_smem(const char* op, const void* kernel, std::size_t bytes) {
  struct Table {
    std::mutex mutex;
    std::unordered_map<const void*, std::size_t> allowed[kMaxCudaDevices];
  };
  static Table& table = *new Table;  // kernels may run from static destructors
  std::lock_guard lock(table.mutex);
  std::size_t& allowed = table.allowed[current_cuda_device()][kernel];
  if (bytes <= allowed) return;
  CT_CUDA_OP(
      op, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  allowed = bytes;
}

int find_compiled_arch(const char* op, const void* kernel) {
  cudaFuncAttributes attributes = {};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, kernel);
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction) {
    cudaGetLastError();
    return 0;
  }
  CT_CUDA_OP(op, status);
  return attributes.ptxVersion * 10;  // of machine code too: that of the PTX it was made from
}

}  // namespace ct::gpu::detail
