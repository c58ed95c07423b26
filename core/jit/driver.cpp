#include <cotangent/core/jit/driver_internal.h>

#include <dlfcn.h>
#include <unistd.h>

#include <sstream>

#include <cotangent/core/base/error.h>

namespace ct::jit {
namespace {

// Declared here as NVIDIA documents them: their headers need not be there.
struct LaunchAttribute {
  int id = 6;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
  char padding[4] = {};
  union {
    char bytes[64] = {};
    int allowed;
  };
};
struct LaunchConfig {
  unsigned blocks[3], threads[3], shared_bytes;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};
struct Driver {
  using Status = int;
  Status (*get_error_string)(Status, const char**) = nullptr;
  Status (*current_context)(void**) = nullptr;
  Status (*set_context)(void*) = nullptr;
  Status (*retain_context)(void**, int) = nullptr;
  Status (*load)(void**, const void*) = nullptr;
  Status (*find)(void**, void*, const char*) = nullptr;
  Status (*set_attribute)(void*, int, int) = nullptr;
  Status (*launch)(const LaunchConfig*, void*, void**, void**) = nullptr;
};
constexpr int kDynamicSharedBytes = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr int kNotFound = 500;          // CUDA_ERROR_NOT_FOUND
constexpr int kInvalidOption = 5;       // NVRTC_ERROR_INVALID_OPTION

struct Nvrtc {
  using Program = void*;
  int (*version)(int*, int*) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*code_size)(Program, std::size_t*) = nullptr;
  int (*code)(Program, char*) = nullptr;
  int (*destroy)(Program*) = nullptr;
};

template <class F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

const Driver& driver(const char* op) {
  static const Driver found = [&] {
    Driver d;
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const bool whole =
        library && find(library, "cuGetErrorString", d.get_error_string) &&
        find(library, "cuCtxGetCurrent", d.current_context) &&
        find(library, "cuCtxSetCurrent", d.set_context) &&
        find(library, "cuDevicePrimaryCtxRetain", d.retain_context) &&
        find(library, "cuModuleLoadData", d.load) && find(library, "cuModuleGetFunction", d.find) &&
        find(library, "cuFuncSetAttribute", d.set_attribute) && find(library, "cuLaunchKernelEx", d.launch);
    CT_CHECK(whole, CudaError, op, "the driver's libcuda.so.1 can't be loaded; install NVIDIA's driver");
    return d;
  }();
  return found;
}

constexpr const char* kNvrtcNames[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"};

const Nvrtc& nvrtc(const char* op) {
  static const Nvrtc& found = *new Nvrtc([&] {
    Nvrtc n;
    const std::string named = variable("COTANGENT_NVRTC"), file = nvrtc_file();
    void* library = file.empty() ? nullptr : ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    for (const char* const name : kNvrtcNames)  // where the linker alone knows of it
      if (!library) library = ::dlopen(named.empty() ? name : named.c_str(), RTLD_NOW | RTLD_LOCAL);
    const bool whole =
        library && find(library, "nvrtcVersion", n.version) &&
        find(library, "nvrtcCreateProgram", n.create) && find(library, "nvrtcCompileProgram", n.compile) &&
        find(library, "nvrtcGetProgramLogSize", n.log_size) && find(library, "nvrtcGetProgramLog", n.log) &&
        find(library, "nvrtcGetCUBINSize", n.code_size) && find(library, "nvrtcGetCUBIN", n.code) &&
        find(library, "nvrtcDestroyProgram", n.destroy);
    CT_CHECK(
        whole, Error, op, "there is neither nvcc nor NVRTC", named.empty() ? "" : " at " + named,
        " to compile its CUDA kernels; install the CUDA toolkit, or name one of them in COTANGENT_NVCC or "
        "COTANGENT_NVRTC");
    return n;
  }());
  return found;
}

void check(const char* op, const char* what, int status) {
  if (status == 0) return;
  const char* text = nullptr;
  driver(op).get_error_string(status, &text);
  detail::fail<CudaError>(op, what, " failed: ", text ? text : "an unknown error", " (", status,
                          "); see the CUDA driver's documentation");
}

// A thread that has not yet used the GPU has no context.
void enter_context(const char* op, int device) {
  const Driver& d = driver(op);
  void* context = nullptr;
  check(op, "asking for the context", d.current_context(&context));
  if (context != nullptr) return;
  check(op, "taking the device's context", d.retain_context(&context, device));
  check(op, "entering the device's context", d.set_context(context));
}

}  // namespace

std::string nvrtc_file() {
  if (const std::string named = variable("COTANGENT_NVRTC"); !named.empty())
    return named.find('/') == named.npos ? "" : named;
  std::istringstream folders(
      variable("LD_LIBRARY_PATH") + ':' + variable("CUDA_HOME", "/usr/local/cuda") +
      "/lib64:/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64:/usr/lib");
  for (std::string folder; std::getline(folders, folder, ':');)
    for (const char* const name : kNvrtcNames)
      if (const std::string file = folder + '/' + name; !folder.empty() && ::access(file.c_str(), R_OK) == 0)
        return file;
  return "";
}

std::string nvrtc_version(const char* op) {
  int major = 0, minor = 0;
  nvrtc(op).version(&major, &minor);
  return "NVRTC " + std::to_string(major) + '.' + std::to_string(minor);
}

Ran nvrtc_compile(const char* op, const std::string& text, const std::string& name, const std::string& arch,
                  bool minimal, std::string& code) {
  const Nvrtc& n = nvrtc(op);
  Nvrtc::Program program = nullptr;
  CT_CHECK(n.create(&program, text.c_str(), name.c_str(), 0, nullptr, nullptr) == 0, Error, op,
           "NVRTC took no program; is its library whole?");
  const std::string target = "--gpu-architecture=sm_" + arch,
                    include = "-I" + variable("CUDA_HOME", "/usr/local/cuda") + "/include";
  // A version that does not know the last one says so at once.
  const char* const options[] = {target.c_str(), "--std=c++20", include.c_str(),
                                 "--device-as-default-execution-space", "--minimal"};
  Ran ran;
  int status = n.compile(program, minimal ? 5 : 3, options);
  if (minimal && status == kInvalidOption) status = n.compile(program, 4, options);
  ran.ok = status == 0;
  std::size_t size = 0;
  if (n.log_size(program, &size) == 0 && size > 1) {
    ran.output.resize(size);
    n.log(program, ran.output.data());
    ran.output.resize(size - 1);  // its end is a 0
  }
  if (ran.ok) {
    ran.ok = n.code_size(program, &size) == 0;
    code.resize(size);
    ran.ok = ran.ok && n.code(program, code.data()) == 0;
  }
  n.destroy(&program);
  return ran;
}

void* load_module(const char* op, int device, const std::string& code) {
  enter_context(op, device);
  void* module = nullptr;
  check(op, "loading the kernels", driver(op).load(&module, code.data()));
  return module;
}

void* find_kernel(const char* op, void* module, const char* kernel, const char* text) {
  void* function = nullptr;
  const int status = driver(op).find(&function, module, kernel);
  CT_CHECK(status != kNotFound, ValueError, op, text, " has no kernel ", kernel,
           "; it must be there as extern \"C\" __global__ void ", kernel, "(...)");
  check(op, "finding a kernel", status);
  return function;
}

void launch_kernel(const char* op, int device, void* function, const CudaGrid& grid, void* stream,
                   void** arguments, bool early) {
  enter_context(op, device);
  const Driver& d = driver(op);
  if (grid.shared_bytes > 48 * 1024)
    check(op, "asking for shared memory",
          d.set_attribute(function, kDynamicSharedBytes, static_cast<int>(grid.shared_bytes)));
  LaunchAttribute attribute;
  attribute.allowed = 1;
  const LaunchConfig config{{static_cast<unsigned>(grid.blocks), grid.blocks_y, 1},
                            {grid.threads, grid.threads_y, 1},
                            grid.shared_bytes,
                            stream,
                            &attribute,
                            early};
  check(op, "the kernel launch", d.launch(&config, function, arguments, nullptr));
}

}  // namespace ct::jit
