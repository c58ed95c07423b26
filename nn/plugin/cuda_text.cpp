#include <cotangent/nn/plugin/cuda_text.h>

#include <climits>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include <cotangent/core/base/version.h>
#include <cotangent/core/device/device.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/nn/plugin/build_internal.h>
#include <cotangent/nn/plugin/cuda_driver_internal.h>

namespace fs = std::filesystem;

namespace ct {
namespace {

// Declarations in front of the text. Without includes: neither nvcc's headers nor a toolkit is needed, and compiling
// it takes less time than reading them. The instructions round to nearest even, as the host does.
constexpr const char* kPrelude = R"(
struct Half {
  unsigned short bits;
  Half() = default;
  __device__ explicit Half(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  __device__ operator float() const { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits)); return x; }
};
struct BFloat16 {
  unsigned short bits;
  BFloat16() = default;
  __device__ explicit BFloat16(float x) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  __device__ operator float() const { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
};
)";

// The names of T and C for a dtype.
const char* types_of(const char* op, DType dtype) {
  switch (dtype) {
    case DType::f32: return "typedef float T;\ntypedef float C;\n";
    case DType::f64: return "typedef double T;\ntypedef double C;\n";
    case DType::f16: return "typedef Half T;\ntypedef float C;\n";
    case DType::bf16: return "typedef BFloat16 T;\ntypedef float C;\n";
    default:
      detail::fail<DTypeError>(op, "got dtype ", name(dtype),
                               "; kernels given as text are for f32, f64, f16, bf16");
  }
}

// Empty where there is none, or none is wanted.
std::string find_nvcc() {
  const std::string named = plugin::variable("COTANGENT_NVCC");
  if (!named.empty()) return named == "none" ? "" : named;
  for (const std::string& place :
       {std::string("nvcc"), plugin::variable("CUDA_HOME", "/usr/local/cuda") + "/bin/nvcc",
        std::string("/usr/local/cuda/bin/nvcc")})
    if (std::string program = plugin::find_program(place); !program.empty()) return program;
  return "";
}

// A folder's name as a C string literal: it may hold any byte but 0.
std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    c == '\n' ? text += "\\n" : text += c;
  }
  return text + '"';
}

void write_bytes(const char* op, const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes << std::flush;
  CT_CHECK(out.good(), IoError, op, path, " can't be written; is the disk full?");
}

}  // namespace

// The machine code of the text, from the cache or made now.
std::string CudaText::cubin(const char* op, DType dtype, const std::string& arch) const {
  std::error_code none;
  const fs::path file = fs::absolute(source_, none).parent_path() / name_;
  const std::string text =
      std::string(kPrelude) + types_of(op, dtype) + "#line 1 " + quoted(file.string()) + '\n' + text_;
  const std::string nvcc = find_nvcc();
  plugin::Fingerprint key;
  for (const std::string& part : {text, arch, std::string(version()), nvcc}) key.add(part);
  nvcc.empty() ? key.add(plugin::nvrtc_version(op)) : key.add_file(nvcc);
  return plugin::cached(op, "", key.text() + ".cubin", [&](const std::string& to) {
    plugin::Ran ran;
    if (nvcc.empty()) {
      std::string code;
      ran = plugin::nvrtc_compile(op, text, file.string(), arch, code);
      if (ran.ok) write_bytes(op, to, code);
    } else {
      const std::string unit = to + ".cu";
      write_bytes(op, unit, text);
      ran = plugin::run({nvcc, "-cubin", "-arch=sm_" + arch, "-std=c++17", "-I", file.parent_path().string(),
                         "-o", to, unit});
      fs::remove(unit, none);
    }
    if (!ran.ok) plugin::fail_compiling(op, file.string(), ran);
  });
}

std::string CudaText::compiler() {
  if (std::string nvcc = find_nvcc(); !nvcc.empty()) return nvcc;
  try {
    return plugin::nvrtc_version("compiler");
  } catch (const Error&) { return ""; }
}

std::string CudaText::arch(Device gpu) {
  const DeviceProperties& properties = cuda_properties(gpu.index);
  const std::string number =
      std::to_string(properties.compute_major) + std::to_string(properties.compute_minor);
  return properties.compute_major >= 9 ? number + 'a' : number;
}

void CudaText::compile(const char* op, DType dtype, const std::string& arch) const { cubin(op, dtype, arch); }

void CudaText::each(const char* op, const char* kernel, std::initializer_list<Tensor> tensors,
                    std::initializer_list<CudaArgument> numbers) const {
  CT_CHECK(tensors.size() != 0, ValueError, op,
           "a kernel for each element of no tensor; at least one is wanted");
  const Tensor& first = *tensors.begin();
  std::vector<CudaArgument> arguments(tensors.begin(), tensors.end());
  arguments.emplace_back(first.numel());
  arguments.insert(arguments.end(), numbers);
  launch(op, kernel, first.dtype(), CudaGrid::over(first.numel()), arguments);
}

void CudaText::launch(const char* op, const char* kernel, DType dtype, CudaGrid grid,
                      std::span<const CudaArgument> arguments) const {
  if (grid.blocks == 0 || grid.blocks_y == 0) return;
  CT_CHECK(grid.blocks > 0 && grid.blocks <= INT_MAX && grid.threads > 0 && grid.threads <= 1024, ValueError,
           op, "a grid of ", grid.blocks, " blocks of ", grid.threads,
           " threads; at most 2147483647 of 1 to 1024 fit");
  // A kernel for each device and dtype that it ran with. By the address of the text, which is never unloaded.
  static std::mutex mutex;
  static auto* const kernels = new std::map<std::tuple<const char*, std::string, int, DType>, void*>;
  static auto* const modules = new std::map<std::tuple<const char*, int, DType>, void*>;
  const int device = current_cuda_device();
  void* function = nullptr;
  {
    const std::lock_guard lock(mutex);
    void*& known = (*kernels)[{text_, kernel, device, dtype}];
    if (known == nullptr) {
      void*& module = (*modules)[{text_, device, dtype}];
      if (module == nullptr) {
        std::string code;
        const std::string file = cubin(op, dtype, arch(cuda(device)));
        CT_CHECK(plugin::read_whole(file, code), IoError, op, file, " has changed; call again");
        module = plugin::load_module(op, device, code);
      }
      known = plugin::find_kernel(op, module, kernel, name_);
    }
    function = known;
  }
  std::vector<void*> addresses;
  for (const CudaArgument& argument : arguments) addresses.push_back(argument.address());
  plugin::launch_kernel(op, device, function, static_cast<unsigned>(grid.blocks), grid.blocks_y, grid.threads,
                        grid.shared_bytes, current_stream(cuda(device)).native, addresses.data());
}

}  // namespace ct
