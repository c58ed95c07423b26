#pragma once

#include <string>

#include <cotangent/core/jit/build_internal.h>
#include <cotangent/core/jit/launch.h>

// NVIDIA's driver and run-time compiler, found when they are first asked for: nothing is linked to them.

namespace ct::jit {

/// The library's file, empty where only the linker knows of one. It is not loaded for that, which takes milliseconds.
std::string nvrtc_file();
/// "NVRTC 13.0", of the library, which it loads. Throws Error where there is no NVRTC.
std::string nvrtc_version(const char* op);

/// Compiles a text for an architecture ("90a") to machine code; the messages call it `name`.
Ran nvrtc_compile(const char* op, const std::string& text, const std::string& name, const std::string& arch,
                  bool minimal, std::string& code);

/// Loads machine code onto a device, which is the thread's current one. Throws CudaError.
void* load_module(const char* op, int device, const std::string& code);
/// Throws ValueError where the module, of the file `text`, has no such kernel.
void* find_kernel(const char* op, void* module, const char* kernel, const char* text);
/// Queues a kernel. `early`: its blocks may start while the kernel before runs. Throws CudaError.
void launch_kernel(const char* op, int device, void* function, const CudaGrid& grid, void* stream,
                   void** arguments, bool early);

}  // namespace ct::jit
