#pragma once

#include <span>
#include <string>

#include <cotangent/core/base/export.h>
#include <cotangent/core/device/device.h>
#include <cotangent/core/jit/launch.h>

// CUDA kernels out of a text that is known only while the program runs. The compiler is nvcc where there is one
// (COTANGENT_NVCC, PATH, CUDA_HOME, /usr/local/cuda), otherwise NVRTC; COTANGENT_NVCC=none means NVRTC. Of whole texts NVRTC comes
// first.

namespace ct::jit {

/// Kernels, `extern "C" __global__`, and no host code.
struct Text {
  std::string code;
  std::string name;      ///< in messages
  std::string folder{};  ///< of the files that it includes, if any
  bool whole =
      false;  ///< it includes none, and no types of CUDA's: NVRTC takes it sooner than nvcc, unless COTANGENT_NVCC names one
};

/// The machine code of a text for an architecture ("90a"): a file of the cache, whose name is a digest of text, architecture,
/// compiler and library. read_whole() reads it. Throws Error where the text does not compile or there is no compiler, and
/// what cached() throws; the messages name `op`.
CT_API std::string compiled(const char* op, const Text& text, const std::string& arch);

/// A kernel on a device. It stays loaded until the program ends.
struct Kernel {
  void* function = nullptr;
  int device = 0;
};

/// The kernel `name` of a text, on the thread's current device, `device`; compiled and loaded where that was not done yet. A
/// look-up takes as long as reading the text: the caller keeps what it gets. Throws as compiled(), ValueError where the text
/// has no such kernel, and CudaError.
CT_API Kernel kernel(const char* op, const Text& text, const char* name, int device);

/// Queues a kernel on the current stream of its device, which is the thread's current one. An empty grid launches nothing. A
/// part of a call of an op (core/device/in_call.h). Throws ValueError where the grid is too large, and CudaError.
CT_API void launch(const char* op, const Kernel& kernel, const CudaGrid& grid,
                   std::span<const CudaArgument> arguments);
/// The same by the addresses of the arguments. `early` as gpu::launch_waiting() means it: the kernel begins with the wait.
CT_API void launch(const char* op, const Kernel& kernel, const CudaGrid& grid,
                   std::span<const void* const> arguments, bool early);

/// Has the compiler of whole texts, NVRTC, compile an empty one: its first in a process takes as long as three later ones. For a
/// thread beside other work.
CT_API void prepare(Device gpu) noexcept;

/// The compiler of texts here: the path of nvcc, or NVRTC's name and version; empty where there is neither.
CT_API std::string compiler();
/// The architecture that they are compiled for on a GPU: "80", "90a". Throws DeviceError where it is not there.
CT_API std::string arch(Device gpu);

}  // namespace ct::jit
