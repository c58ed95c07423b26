#include <cotangent/core/jit/cuda_text.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include <cotangent/core/device/device.h>
#include <cotangent/core/jit/kernel_internal.h>

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

// A folder's name as a C string literal: it may hold any byte but 0.
std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    c == '\n' ? text += "\\n" : text += c;
  }
  return text + '"';
}

// The text of the file `name` beside the file `source`, compiled for a dtype.
jit::Text text_for(const char* op, DType dtype, const char* source, const char* name, const char* text) {
  std::error_code none;
  const fs::path file = fs::absolute(source, none).parent_path() / name;
  return {std::string(kPrelude) + types_of(op, dtype) + "#line 1 " + quoted(file.string()) + '\n' + text,
          file.string(), file.parent_path().string()};
}

}  // namespace

std::string CudaText::compiler() { return jit::compiler(); }

std::string CudaText::arch(Device gpu) { return jit::arch(gpu); }

void CudaText::compile(const char* op, DType dtype, const std::string& arch) const {
  jit::compiled(op, text_for(op, dtype, source_, name_, text_), arch);
}

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
  // A kernel for each device and dtype that it ran with. By the address of the text, which is never unloaded.
  static std::mutex mutex;
  static auto* const kernels = new std::map<std::tuple<const char*, std::string, int, DType>, jit::Kernel>;
  const int device = current_cuda_device();
  jit::Kernel found;
  {
    const std::lock_guard lock(mutex);
    jit::Kernel& known = (*kernels)[{text_, kernel, device, dtype}];
    if (known.function == nullptr)
      known = jit::kernel(op, text_for(op, dtype, source_, name_, text_), kernel, device);
    found = known;
  }
  jit::launch(op, found, grid, arguments);
}

}  // namespace ct
