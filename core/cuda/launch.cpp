#include <cotangent/core/cuda/launch.h>

#include <mutex>
#include <unordered_map>

namespace ct::gpu::detail {

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

}  // namespace ct::gpu::detail
