#include <cotangent/core/cuda/blas.h>

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>

#include <cotangent/core/device/device.h>

#ifndef COTANGENT_CUBLAS_FOLDER  // the build's
#define COTANGENT_CUBLAS_FOLDER "/usr/local/cuda/lib64"
#endif

namespace ct::gpu {

const BlasLt& blas() {
  static const BlasLt loaded = [] {
#define CT_TEXT(version) CT_TEXT_OF(version)
#define CT_TEXT_OF(version) #version
    std::string name = "libcublasLt.so." CT_TEXT(CUBLAS_VER_MAJOR);
    const char* const named = std::getenv("COTANGENT_CUBLAS");
    if (named && *named) name = named;
    void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::string why = library ? "" : ::dlerror();
    if (!library && name.find('/') == std::string::npos)
      library = ::dlopen((COTANGENT_CUBLAS_FOLDER "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    CT_CHECK(library, CudaError, "cublas", "products on a GPU need cuBLAS, which can't be loaded: ", why,
             "; install the CUDA Toolkit's cuBLAS, or name its file in COTANGENT_CUBLAS");
    BlasLt functions;
#define CT_FIND(function)                                                                                   \
  functions.function = reinterpret_cast<decltype(functions.function)>(::dlsym(library, #function));         \
  CT_CHECK(functions.function, CudaError, "cublas", name, " has no " #function "; it is another version: ", \
           CT_TEXT(CUBLAS_VER_MAJOR) "." CT_TEXT(CUBLAS_VER_MINOR) " is wanted");
    CT_CUBLASLT_FUNCTIONS(CT_FIND)
    return functions;
  }();
  return loaded;
}

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
  CT_CUBLAS_OP("cublas", blas().cublasLtCreate(&handle));
  slot.store(handle, std::memory_order_release);
  return handle;
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
  ct::detail::fail<CudaError>(op, call, " failed: ", blas().cublasLtGetStatusName(status), "; ", hint);
}

}  // namespace ct::gpu
