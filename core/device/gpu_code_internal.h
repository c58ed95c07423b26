#pragma once

#include <string>
#include <string_view>

#include <cotangent/core/base/export.h>

// GPUs that the code of a build runs on, by the list of architectures it was compiled for, without asking a
// driver: finding out by trying would start a context on every GPU of the machine.

namespace ct::detail {

/// The oldest compute capability that kernels are written for, 8.0: cp.async and products of bf16.
inline constexpr int kOldestGpu = 80;

/// Whether a build for `architectures` ("80-real 90a-real 90-virtual", as in COTANGENT_CUDA_ARCHITECTURES) holds
/// code for a GPU of this compute capability.
CT_API bool has_code_for(std::string_view architectures, int major, int minor);

/// Why it does not, and what to do: "the library was built for 90a-real; this GPU is 8.6; rebuild with
/// -DCOTANGENT_CUDA_ARCHITECTURES=86-real".
CT_API std::string missing_code(std::string_view architectures, int major, int minor);

}  // namespace ct::detail
