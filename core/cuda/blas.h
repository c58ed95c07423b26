#pragma once

#include <cublasLt.h>

#include <cstddef>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/error.h>

// cuBLASLt: its functions, handle and errors. For CUDA translation units only.

namespace ct::gpu {

// clang-format off
#define CT_CUBLASLT_FUNCTIONS(each)                                                              \
  each(cublasLtCreate) each(cublasLtGetStatusName) each(cublasLtMatmul)                          \
  each(cublasLtMatmulAlgoGetHeuristic)                                                           \
  each(cublasLtMatmulDescInit_internal) each(cublasLtMatmulDescSetAttribute)                     \
  each(cublasLtMatmulPreferenceInit_internal) each(cublasLtMatmulPreferenceSetAttribute)         \
  each(cublasLtMatrixLayoutInit_internal) each(cublasLtMatrixLayoutSetAttribute)
// clang-format on

/// The functions of cuBLASLt that are called here, by its own names.
struct BlasLt {
#define CT_MEMBER(function) decltype(&::function) function = nullptr;
  CT_CUBLASLT_FUNCTIONS(CT_MEMBER)
#undef CT_MEMBER
};

/// cuBLASLt, which is loaded at the first call, and not with the program: loading it takes 0.1 s and 100 MB, which a
/// program that does not come to a product on a GPU does not pay, and a program that was built with CUDA starts where
/// there is no cuBLAS. Looked for under the name in the environment's COTANGENT_CUBLAS; without one as the system finds
/// libraries, then where it was when this library was built. Throws CudaError if there is none.
CT_API const BlasLt& blas();

/// The handle of the current device. One serves all threads: cuBLASLt's calls keep no state in it. Made at
/// the first use and never destroyed, so that it can be used while the process ends.
CT_API cublasLtHandle_t blas_lt();

/// Scratch memory for its kernels: what it recommends for Hopper and more than enough elsewhere.
inline constexpr std::size_t kBlasWorkspaceBytes = std::size_t{32} << 20;

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
