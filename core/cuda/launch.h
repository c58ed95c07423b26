#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <cotangent/core/cuda/check.h>
#include <cotangent/core/cuda/kernel.h>
#include <cotangent/core/device/in_call.h>
#include <cotangent/core/device/stream.h>

// Launching kernels. For CUDA translation units only.

namespace ct::gpu {

/// The stream that the calling thread's work on its current GPU goes to.
inline cudaStream_t native_stream() {
  return static_cast<cudaStream_t>(current_stream(cuda(current_cuda_device())).native);
}

namespace detail {
/// Lets `kernel` use `bytes` of dynamic shared memory on the current device; asks the driver once per
/// kernel, device and new maximum. Throws CudaError when the device has less.
CT_API void allow_dynamic_smem(const char* op, const void* kernel, std::size_t bytes);
/// As compiled_arch(), asked of the runtime.
CT_API int find_compiled_arch(const char* op, const void* kernel);
/// Whether kernels that the calling thread launches with launch_waiting() may start early: while it captures a graph.
CT_API bool& launches_early() noexcept;
}  // namespace detail

/// __CUDA_ARCH__ of the code of `kernel` that runs on the current device (900 for Hopper), or 0 where there
/// is no code for it. A launch that relies on something in the kernel that stands inside of an #if __CUDA_ARCH__
/// asks here: the GPU may be newer than the code. Asked once per kernel and device.
template <auto kernel>
int compiled_arch(const char* op) {
  static std::atomic<int> known[kMaxCudaDevices];  // 1 more than the answer
  std::atomic<int>& entry = known[current_cuda_device()];
  int value = entry.load(std::memory_order_relaxed);
  if (value == 0) [[unlikely]] {
    value = 1 + detail::find_compiled_arch(op, reinterpret_cast<const void*>(kernel));
    entry.store(value, std::memory_order_relaxed);
  }
  return value - 1;
}

namespace detail {
/// launch(), or launch_waiting() where `early`.
template <class... Params, class... Args>
void launch(bool early, const char* op, void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t smem,
            Args&&... args) {
  static_assert(sizeof...(Params) == sizeof...(Args), "as many arguments as the kernel has parameters");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  ct::detail::require_call(op);  // debug builds: inside of an op
  if (smem > 48 * 1024) detail::allow_dynamic_smem(op, reinterpret_cast<const void*>(kernel), smem);
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = smem;
  config.stream = native_stream();
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  // Code for older GPUs, compiled for this one when it was loaded, does not wait.
  if (early && find_compiled_arch(op, reinterpret_cast<const void*>(kernel)) >= 900)
    config.attrs = &attribute, config.numAttrs = 1;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
  if (status != cudaSuccess) [[unlikely]]
    throw_cuda_error(op, "the kernel launch", status);
}
}  // namespace detail

/// Queues `kernel` on the current stream of the current device; never waits. An empty grid, which is what
/// an empty tensor asks for, launches nothing. More than 48 KiB of dynamic shared memory is opted in to.
/// Arguments are converted to the kernel's parameter types. Throws CudaError naming `op`; an error inside
/// the kernel shows at a later call.
template <class... Params, class... Args>
void launch(const char* op, void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t smem,
            Args&&... args) {
  detail::launch(false, op, kernel, grid, block, smem, std::forward<Args>(args)...);
}
/// The same for a kernel that begins with wait_for_previous(): in a graph its blocks take their places while the kernel before
/// still runs (programmatic dependent launch). `check.waits` reads the machine code for the wait.
template <class... Params, class... Args>
void launch_waiting(const char* op, void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t smem,
                    Args&&... args) {
  detail::launch(detail::launches_early(), op, kernel, grid, block, smem, std::forward<Args>(args)...);
}

/// Blocks so that blocks * per_block >= n. Throws CudaError above the grid's limit of 2^31 - 1.
inline unsigned blocks_for(const char* op, std::int64_t n, std::int64_t per_block) {
  const std::int64_t blocks = ceil_div(n, per_block);
  CT_CHECK(blocks <= 0x7fffffff, CudaError, op, "a grid of ", blocks,
           " blocks is too large; at most 2147483647 fit");
  return static_cast<unsigned>(blocks);
}

/// Multiprocessors of the current device.
inline int multiprocessors() { return cuda_properties(current_cuda_device()).multiprocessors; }

/// The grid of a kernel that strides over n elements: enough blocks for all of them, but at most
/// `per_multiprocessor` for each multiprocessor.
inline unsigned grid_stride_blocks(std::int64_t n, std::int64_t per_block, int per_multiprocessor = 16) {
  const std::int64_t needed = ceil_div(n, per_block);
  const std::int64_t most = std::int64_t{multiprocessors()} * per_multiprocessor;
  return static_cast<unsigned>(needed < most ? needed : most);
}

/// True when a pointer allows accesses of `bytes` bytes at once.
inline bool is_aligned(const void* p, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

}  // namespace ct::gpu
