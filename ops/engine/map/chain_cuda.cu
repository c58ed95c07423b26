#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include <cotangent/core/base/error.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/jit/kernel_internal.h>
#include <cotangent/ops/engine/map/chain.h>

// A program on a GPU: a kernel out of its text, compiled for the GPU at hand when it first runs there (core/jit). Rows that are
// whole chunks of 16 bytes take a kernel that moves these, all else one that moves elements.

namespace ct::map::chain {
namespace {

using Layout = map::LayoutOf<kMaxOperands>;

// The launch of a program: its variant, threads, and the numbers that vary from call to call.
struct Launch {
  Variant variant;
  Layout layout;
  std::int64_t threads;
};

Launch plan_launch(std::span<const Tensor* const> operands, std::size_t outputs) {
  Launch l;
  Layout& layout = l.layout;
  layout.numel = operands[0]->numel();
  map::lay_out(operands[0]->shape(), operands, layout.rank, layout.sizes, layout.strides);
  const int inner = layout.rank - 1;
  std::int64_t v = 1;
  l.variant.storage.resize(operands.size());
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (!operands[k]) continue;
    l.variant.storage[k] = operands[k]->dtype();
    const auto size = static_cast<std::int64_t>(size_of(operands[k]->dtype()));
    if (size > 1) v = std::max(v, 16 / size);
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

constexpr std::size_t kMaxArguments = 4096 / 8;  // what a kernel takes

struct Kernels final : Compiled {
  using Key = std::tuple<int, int, int, bool, std::uint64_t, std::vector<DType>>;
  std::mutex mutex;
  std::map<Key, jit::Kernel> kernels;  // without a function where the text does not compile
};

Kernels& kernels_of(const Program& p) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!p.compiled) p.compiled = std::make_unique<Kernels>();
  return static_cast<Kernels&>(*p.compiled);
}

jit::Kernel kernel_of(const Program& p, const Variant& v, int device) {
  Kernels& compiled = kernels_of(p);
  const std::lock_guard lock(compiled.mutex);
  const auto [at, fresh] =
      compiled.kernels.try_emplace({device, v.vector, v.rank, v.wide_index, v.repeated, v.storage});
  if (!fresh) return at->second;
  try {
    at->second = jit::kernel("fused", {.code = cuda_text(p, v), .name = "a fused formula", .whole = true},
                             "chain", device);
  } catch (const Error&) {  // no compiler, no room on the disk: the ops run one by one
  }
  return at->second;
}

bool run_chain_cuda(const Program& p, std::span<const Tensor* const> outputs,
                    std::span<const Tensor* const> inputs, bool only_prepare) {
  const Tensor* tensors[kMaxOperands];
  std::copy(inputs.begin(), inputs.end(), std::copy(outputs.begin(), outputs.end(), tensors));
  for (std::size_t k = 0; k < inputs.size(); ++k)
    if (p.input_slots[k] < 0) tensors[outputs.size() + k] = nullptr;
  const std::span<const Tensor* const> operands(tensors, outputs.size() + inputs.size());
  const Launch l = plan_launch(operands, outputs.size());
  const jit::Kernel kernel = kernel_of(p, l.variant, outputs[0]->device().index);
  if (!kernel.function) return false;

  std::vector<CudaArgument> arguments;
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
  if (arguments.size() > kMaxArguments) return false;
  if (only_prepare) return true;
  jit::launch("fused", kernel, CudaGrid::over(l.threads), arguments);
  return true;
}

}  // namespace

}  // namespace ct::map::chain

CT_FUNCTIONS(cuda, ChainFunctions, chain_functions, map::chain::run_chain_cuda)
