#include <cotangent/core/jit/kernel_internal.h>

#include <climits>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/version.h>
#include <cotangent/core/device/in_call.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/core/jit/build_internal.h>
#include <cotangent/core/jit/driver_internal.h>

namespace ct::jit {
namespace {

// Empty where there is none, or none is wanted.
std::string find_nvcc() {
  const std::string named = variable("COTANGENT_NVCC");
  if (!named.empty()) return named == "none" ? "" : named;
  for (const std::string& place :
       {std::string("nvcc"), variable("CUDA_HOME", "/usr/local/cuda") + "/bin/nvcc",
        std::string("/usr/local/cuda/bin/nvcc")})
    if (std::string program = find_program(place); !program.empty()) return program;
  return "";
}

bool has_nvrtc() {
  try {
    return !nvrtc_version("compiler").empty();
  } catch (const Error&) { return false; }
}

void write_bytes(const char* op, const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes << std::flush;
  CT_CHECK(out.good(), IoError, op, path, " can't be written; is the disk full?");
}

}  // namespace

std::string compiled(const char* op, const Text& text, const std::string& arch) {
  const std::string library = nvrtc_file();
  const bool sooner = text.whole && variable("COTANGENT_NVCC").empty() && (!library.empty() || has_nvrtc());
  std::string nvcc = sooner ? "" : find_nvcc();
  Fingerprint key;
  for (const std::string& part : {text.code, text.folder, arch, std::string(version()), nvcc}) key.add(part);
  if (nvcc.empty() && library.empty())
    key.add(nvrtc_version(op));
  else
    key.add_file(nvcc.empty() ? library : nvcc);
  return cached(op, "", key.text() + ".cubin", [&](const std::string& to) {
    Ran ran;
    if (nvcc.empty() && !has_nvrtc()) nvcc = find_nvcc();
    if (nvcc.empty()) {
      std::string code;
      ran = nvrtc_compile(op, text.code, text.name, arch, text.whole, code);
      if (ran.ok) write_bytes(op, to, code);
    } else {
      const std::string unit = to + ".cu";
      write_bytes(op, unit, text.code);
      std::vector<std::string> command{nvcc, "-cubin", "-arch=sm_" + arch, "-std=c++20"};
      if (!text.folder.empty()) command.insert(command.end(), {"-I", text.folder});
      command.insert(command.end(), {"-o", to, unit});
      ran = run(command);
      std::error_code none;
      std::filesystem::remove(unit, none);
    }
    if (!ran.ok) fail_compiling(op, text.name, ran);
  });
}

Kernel kernel(const char* op, const Text& text, const char* name, int device) {
  static std::mutex mutex;
  static auto* const modules = new std::map<std::pair<std::string, int>, void*>;  // by file and device
  const std::string file = compiled(op, text, arch(cuda(device)));
  const std::lock_guard lock(mutex);
  void*& module = (*modules)[{file, device}];
  if (module == nullptr) {
    std::string code;
    CT_CHECK(read_whole(file, code), IoError, op, file, " has changed; call again");
    module = load_module(op, device, code);
  }
  return {find_kernel(op, module, name, text.name.c_str()), device};
}

void launch(const char* op, const Kernel& kernel, const CudaGrid& grid,
            std::span<const CudaArgument> arguments) {
  std::vector<const void*> addresses;
  for (const CudaArgument& argument : arguments) addresses.push_back(argument.address());
  launch(op, kernel, grid, addresses, false);
}

void launch(const char* op, const Kernel& kernel, const CudaGrid& grid,
            std::span<const void* const> arguments, bool early) {
  if (grid.blocks == 0 || grid.blocks_y == 0) return;
  CT_CHECK(
      grid.blocks > 0 && grid.blocks <= INT_MAX && grid.threads > 0 && grid.threads * grid.threads_y <= 1024,
      ValueError, op, "a grid of ", grid.blocks, " blocks of ", grid.threads * grid.threads_y,
      " threads; at most 2147483647 of 1 to 1024 fit");
  detail::require_call(op);
  launch_kernel(op, kernel.device, kernel.function, grid, current_stream(cuda(kernel.device)).native,
                const_cast<void**>(arguments.data()), early);
}

void prepare(Device gpu) noexcept {
  try {
    if (!variable("COTANGENT_NVCC").empty() || !has_nvrtc()) return;
    std::string code;
    nvrtc_compile("jit", "extern \"C\" __global__ void nothing() {}", "an empty kernel", arch(gpu), true,
                  code);
  } catch (...) {  // NOLINT: whoever compiles something hears of it
  }
}

std::string compiler() {
  if (std::string nvcc = find_nvcc(); !nvcc.empty()) return nvcc;
  return has_nvrtc() ? nvrtc_version("compiler") : "";
}

std::string arch(Device gpu) {
  const DeviceProperties& properties = cuda_properties(gpu.index);
  const std::string number =
      std::to_string(properties.compute_major) + std::to_string(properties.compute_minor);
  return properties.compute_major >= 9 ? number + 'a' : number;
}

}  // namespace ct::jit
