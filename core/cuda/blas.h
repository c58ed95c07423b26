#pragma once

#include <cublasLt.h>

#include <cstddef>

#include <cotangent/core/allocator.h>
#include <cotangent/core/dtype.h>

// cuBLASLt: its handle, workspace and errors. For CUDA translation units only.

namespace ct::gpu {

/// The handle of the current device. One serves all threads: cuBLASLt's calls keep no state in it. Made at
/// the first use and never destroyed, so that it can be used while the process ends.
CT_API cublasLtHandle_t blas_lt();

/// What cuBLAS recommends for Hopper and more than enough elsewhere.
inline constexpr std::size_t kBlasWorkspaceBytes = std::size_t{32} << 20;

/// Scratch memory for the work that is queued during its life. It comes from the caching allocator on the
/// current stream, where giving it back while that work still runs is right: whoever gets the block next
/// is queued behind. So no two streams ever share a workspace, and a captured graph keeps its own.
class CT_API Workspace {
 public:
  explicit Workspace(std::size_t bytes = kBlasWorkspaceBytes);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Stream stream_;
  Allocator* allocator_;
  std::size_t bytes_;
  void* data_;
};

/// CUDA's name of an element type. Throws DTypeError, naming `op`, for i64 and bool, which it has not.
CT_API cudaDataType_t cuda_type(const char* op, DType dtype);

/// Throws CudaError: "[op] call failed: <cuBLAS's name>; <what to do>".
[[noreturn]] CT_API void throw_cublas_error(const char* op, const char* call, cublasStatus_t status);

}  // namespace ct::gpu

/// Runs a cuBLAS call on behalf of `op` and throws CudaError unless it succeeds.
#define CT_CUBLAS_OP(op, call)                                      \
  do {                                                              \
    const cublasStatus_t ct_cublas_status = (call);                 \
    if (ct_cublas_status != CUBLAS_STATUS_SUCCESS) [[unlikely]]     \
      ::ct::gpu::throw_cublas_error((op), #call, ct_cublas_status); \
  } while (false)
