#include <cotangent/core/cuda/blas.h>

#include <atomic>
#include <mutex>

namespace ct::gpu {

cublasLtHandle_t blas_lt() {
  static std::atomic<cublasLtHandle_t> handles[kMaxCudaDevices];
  static std::mutex& mutex = *new std::mutex;
  std::atomic<cublasLtHandle_t>& slot = handles[current_cuda_device()];
  cublasLtHandle_t handle = slot.load(std::memory_order_acquire);
  if (handle) [[likely]]
    return handle;
  std::lock_guard lock(mutex);
  handle = slot.load(std::memory_order_acquire);
  if (handle) return handle;
  CT_CUBLAS_OP("cublas", cublasLtCreate(&handle));
  slot.store(handle, std::memory_order_release);
  return handle;
}

Workspace::Workspace(std::size_t bytes)
    : stream_(current_stream(cuda(current_cuda_device()))),
      allocator_(&current_allocator(stream_.device)),
      bytes_(bytes),
      data_(bytes ? allocator_->allocate(bytes, stream_) : nullptr) {}

Workspace::~Workspace() {
  if (data_) allocator_->deallocate(data_, bytes_, stream_);
}

cudaDataType_t cuda_type(const char* op, DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDA_R_32F;
    case DType::f64: return CUDA_R_64F;
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::i32: return CUDA_R_32I;
    case DType::u8: return CUDA_R_8U;
    default: break;
  }
  ct::detail::fail<DTypeError>(op, "cuBLAS has no type for ", name(dtype), "; convert with .to(f32)");
}

void throw_cublas_error(const char* op, const char* call, cublasStatus_t status) {
  const char* hint = "see cuBLAS's documentation of this status";
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
    hint = "the shapes, types or alignment of the operands are not supported by this routine";
  if (status == CUBLAS_STATUS_NOT_INITIALIZED || status == CUBLAS_STATUS_ALLOC_FAILED)
    hint = "cuBLAS could not get memory of its own: reduce the batch size or call ct::empty_cache()";
  if (status == CUBLAS_STATUS_EXECUTION_FAILED || status == CUBLAS_STATUS_INTERNAL_ERROR)
    hint = "a kernel launched before may have gone wrong: run under compute-sanitizer to find it";
  ct::detail::fail<CudaError>(op, call, " failed: ", cublasLtGetStatusName(status), "; ", hint);
}

}  // namespace ct::gpu
