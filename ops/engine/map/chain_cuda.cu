#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>

#include <cotangent/core/base/error.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/jit/kernel_internal.h>
#include <cotangent/core/op/around.h>
#include <cotangent/ops/engine/map/chain.h>

// A program on a GPU: a kernel out of its text, compiled for the GPU at hand when it first runs there (core/jit). Rows that are
// whole chunks of 16 bytes take a kernel that moves these, all else one that moves elements. Programs around an op's kernel of rows
// go over the vectors of that kernel.

namespace ct::map::chain {
namespace {

using Layout = map::LayoutOf<kMaxOperands>;

// The launch of a program: its variant, threads, and the numbers that vary from call to call.
struct Launch {
  Variant variant;
  Layout layout;
  std::int64_t threads;
};

// By vectors of `vector` elements; 0: what is best.
Launch plan_launch(std::span<const Tensor* const> operands, std::size_t outputs, int vector) {
  Launch l;
  Layout& layout = l.layout;
  layout.numel = operands[0]->numel();
  map::lay_out(operands[0]->shape(), operands, layout.rank, layout.sizes, layout.strides);
  const int inner = layout.rank - 1;
  std::int64_t v = std::max(vector, 1);
  l.variant.storage.resize(operands.size());
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (!operands[k]) continue;
    l.variant.storage[k] = operands[k]->dtype();
    const auto size = static_cast<std::int64_t>(size_of(operands[k]->dtype()));
    if (size > 1 && vector == 0) v = std::max(v, 16 / size);
  }
  bool chunks = layout.sizes[inner] % v == 0;
  for (std::size_t k = 0; k < operands.size() && chunks; ++k) {
    if (!operands[k]) continue;
    const std::int64_t* const strides = layout.strides[k];
    if (k >= outputs && strides[inner] == 0) {
      l.variant.repeated |= std::uint64_t{1} << k;
      continue;
    }
    const std::size_t bytes =
        std::min<std::size_t>(static_cast<std::size_t>(v) * size_of(operands[k]->dtype()), 16);
    chunks = strides[inner] == 1 && gpu::is_aligned(operands[k]->raw_data(), bytes);
    for (int d = 0; d < inner; ++d) chunks = chunks && strides[d] % v == 0;
  }
  if (!chunks) {
    v = 1;
    l.variant.repeated = 0;
  }
  l.variant.vector = static_cast<int>(v);
  l.variant.rank = layout.rank;
  l.threads = layout.numel / v;
  layout.sizes[inner] /= v;
  std::int64_t farthest = l.threads;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (!operands[k]) continue;
    if (!(l.variant.repeated >> k & 1u)) layout.strides[k][inner] *= v;
    std::int64_t last = v;
    for (int d = 0; d <= inner; ++d) last += (layout.sizes[d] - 1) * layout.strides[k][d];
    farthest = std::max(farthest, last);
  }
  l.variant.wide_index = farthest >= std::int64_t{1} << 31;
  return l;
}

constexpr std::size_t kMaxArguments = 4096;  // bytes that a kernel takes

using Key = std::tuple<int, int, int, bool, std::uint64_t, std::vector<DType>>;
struct Kernels final : Compiled {
  std::mutex mutex;
  std::map<std::vector<Key>, jit::Kernel> kernels;  // without a function where the text does not compile
};

Key key_of(int device, const Variant& v) {
  return {device, v.vector, v.rank, v.wide_index, v.repeated, v.storage};
}

jit::Kernel kernel_of(std::unique_ptr<Compiled>& kept, int device, const std::vector<Key>& key,
                      const std::function<std::string()>& text) {
  static std::mutex mutex;
  Kernels& compiled = [&]() -> Kernels& {
    const std::lock_guard lock(mutex);
    if (!kept) kept = std::make_unique<Kernels>();
    return static_cast<Kernels&>(*kept);
  }();
  const std::lock_guard lock(compiled.mutex);
  const auto [at, fresh] = compiled.kernels.try_emplace(key);
  if (!fresh) return at->second;
  try {
    at->second =
        jit::kernel("fused", {.code = text(), .name = "a fused formula", .whole = true}, "chain", device);
  } catch (const Error&) {  // no compiler, no room on the disk: the ops run one by one
  }
  return at->second;
}

// A program's launch, and the words of its struct.
struct Planned : Launch {
  std::vector<CudaArgument> words;
  static_assert(sizeof(CudaArgument) == 8);
};

Planned plan(const Program& p, std::span<const Tensor* const> outputs, std::span<const Tensor* const> inputs,
             int vector) {
  const Tensor* tensors[kMaxOperands];
  std::copy(inputs.begin(), inputs.end(), std::copy(outputs.begin(), outputs.end(), tensors));
  for (std::size_t k = 0; k < inputs.size(); ++k)
    if (p.input_slots[k] < 0) tensors[outputs.size() + k] = nullptr;
  const std::span<const Tensor* const> operands(tensors, outputs.size() + inputs.size());
  Planned l{plan_launch(operands, outputs.size(), vector), {}};
  std::vector<CudaArgument>& arguments = l.words;
  for (const Tensor* const t : operands)
    if (t) arguments.emplace_back(*t);
  arguments.emplace_back(l.threads);
  arguments.emplace_back(0);
  for (int d = 1; d < l.layout.rank; ++d) arguments.emplace_back(l.layout.sizes[d]);
  for (std::size_t k = 0; k < operands.size(); ++k)
    for (int d = 0; d < l.layout.rank && operands[k]; ++d) arguments.emplace_back(l.layout.strides[k][d]);
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    const Step& step = p.steps[s];
    const map::Parameters& numbers = p.plans[s].numbers;
    if (step.operand_count == 0) arguments.emplace_back(step.numbers.p.to<double>());
    if (step.formula && step.formula->draws) {
      const GeneratorState& draw = step.draw.state;
      for (const std::uint64_t word :
           {static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(draw.live)), draw.seed, draw.offset,
            step.draw.threshold})
        arguments.emplace_back(static_cast<long long>(word));
    }
    if (step.formula && names_number(step.formula->text, 'p')) arguments.emplace_back(numbers.p.to<double>());
    if (step.formula && names_number(step.formula->text, 'q')) arguments.emplace_back(numbers.q.to<double>());
  }
  return l;
}

// Kernels of texts begin with the wait.
bool launches_early() {
  return gpu::detail::launches_early() && cuda_properties(current_cuda_device()).compute_major >= 9;
}

bool run_chain_cuda(const Program& p, std::span<const Tensor* const> outputs,
                    std::span<const Tensor* const> inputs, bool only_prepare) {
  const Planned l = plan(p, outputs, inputs, 0);
  if (l.words.size() * 8 > kMaxArguments) return false;
  const int device = outputs[0]->device().index;
  const jit::Kernel kernel =
      kernel_of(p.compiled, device, {key_of(device, l.variant)}, [&] { return cuda_text(p, l.variant); });
  if (!kernel.function) return false;
  const void* const words = l.words.data();
  if (!only_prepare) jit::launch("fused", kernel, CudaGrid::over(l.threads), {&words, 1}, launches_early());
  return true;
}

// See Wrapping::launch().
bool launch_wrapped(const Wrapping& around, const char* op, const detail::KernelText& text,
                    const CudaGrid& grid, const void* argument, std::size_t bytes) {
  constexpr char nothing = 0;
  const void* arguments[] = {argument, &nothing, &nothing};
  const int device = current_cuda_device();
  std::vector<Key> key{{device, static_cast<int>(grid.threads * grid.threads_y), 0, false, 0, {}}};
  Planned planned[2];
  for (const bool last : {false, true}) {
    const Wrapping::Part& part = last ? around.store : around.load;
    if (!(last ? around.behind(text) : around.before(text))) continue;
    if (last && part.program->input_slots[part.passed] < 0) return false;  // read by nothing that is kept
    if (!(last ? part.inputs : part.outputs)[part.passed]->is_contiguous()) return false;
    Planned& l = planned[last] = plan(*part.program, part.outputs, part.inputs, text.vector);
    if (part.program->in_chunks && (l.variant.vector != text.vector || text.vector == 1)) return false;
    l.variant.passed = static_cast<int>(part.passed + (last ? part.outputs.size() : 0));
    l.variant.in_memory = part.in_memory;
    arguments[1 + last] = l.words.data();
    bytes += l.words.size() * 8;
    key.push_back(key_of(last, l.variant));
  }
  if (bytes > kMaxArguments) return false;
  if (around.ask == detail::Around::Ask::fits) return true;
  const jit::Kernel kernel = kernel_of(around.compiled, device, key, [&] {
    return wrapped_text(text, grid.threads * grid.threads_y, around, planned[0].variant, planned[1].variant);
  });
  if (!kernel.function || around.ask == detail::Around::Ask::ready) return kernel.function;
  jit::launch(op, kernel, grid, arguments, launches_early());
  return true;
}

}  // namespace

}  // namespace ct::map::chain

CT_FUNCTIONS(cuda, ChainFunctions, chain_functions, map::chain::run_chain_cuda, nullptr,
             map::chain::launch_wrapped)
