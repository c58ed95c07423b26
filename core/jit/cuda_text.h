#pragma once

#include <initializer_list>
#include <span>
#include <string>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/jit/launch.h>
#include <cotangent/core/tensor/tensor.h>

// CUDA kernels as text: compiled when they first run, for the GPU and the dtype that they run with, and kept in the cache
// (core/jit/README.md). Compiling them needs neither CUDA's headers nor its libraries.

namespace ct {

/// The text of a .cu file whose kernels are `extern "C" __global__`. It holds no host code. In it T is the type of the
/// elements (float, double, or 16 bits) and C the type to compute in (float, or double where T is that): C(x[i]) reads an
/// element, T(c) rounds to one. The compiler is nvcc where there is one (COTANGENT_NVCC, PATH, CUDA_HOME,
/// /usr/local/cuda), otherwise NVRTC, which is looked for as COTANGENT_NVRTC and by its name. COTANGENT_NVCC=none means
/// NVRTC.
class CT_API CudaText {
 public:
  /// `source` is the file that the text stands beside (__FILE__), `name` the name of the text's own. CT_CUDA_TEXT calls it.
  constexpr CudaText(const char* source, const char* name, const char* text)
      : source_(source), name_(name), text_(text) {}

  /// Queues `kernel`, compiled for elements of `dtype`, on the current stream of the current device. An empty grid launches
  /// nothing. Throws Error where the text does not compile or there is no compiler, ValueError where it has no such kernel
  /// or the grid is too large, DTypeError for dtypes that do not float, and CudaError; each names `op`.
  void launch(const char* op, const char* kernel, DType dtype, CudaGrid grid,
              std::span<const CudaArgument> arguments) const;

  /// The same for an elementwise kernel: a thread for each element of the first tensor, whose dtype T is; its arguments are
  /// the tensors, the number of elements, and `numbers`. The tensors are contiguous, of one dtype and of as many elements.
  void each(const char* op, const char* kernel, std::initializer_list<Tensor> tensors,
            std::initializer_list<CudaArgument> numbers = {}) const;

  /// Compiles the text for `dtype` and an architecture ("90a") without running it, so that a machine without a GPU can tell
  /// whether it compiles. Throws as launch().
  void compile(const char* op, DType dtype, const std::string& arch) const;

  /// The compiler of the texts here: the path of nvcc, or NVRTC's name and version; empty where there is neither.
  static std::string compiler();
  /// The architecture that they are compiled for on a GPU: "80", "90a". Throws DeviceError where it is not there.
  static std::string arch(Device gpu);

 private:
  const char *source_, *name_, *text_;
};

}  // namespace ct

/// Defines the CudaText `variable` of the file `name`, which lies beside this one; outside of namespaces. The compiler
/// finds it where -I says: load_op() and the CMake function cotangent_own_op() do so.
#define CT_CUDA_TEXT(variable, name)                                                                  \
  asm(".pushsection .rodata\ncotangent_" #variable ": .incbin \"" name "\"\n.byte 0\n.popsection\n"); \
  [[gnu::visibility("hidden")]] extern const char variable##_text[] asm("cotangent_" #variable);      \
  static const ct::CudaText variable(__FILE__, name, variable##_text);
