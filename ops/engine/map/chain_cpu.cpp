#include <algorithm>
#include <memory>

#include <cotangent/core/base/per_thread.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/simd/stream.h>
#include <cotangent/ops/engine/map/blocks_cpu.h>
#include <cotangent/ops/engine/map/chain.h>

// A program on the CPU: tile functions that exist, called in turn on tiles that stay in the L1 cache. The cut into tiles and
// tasks depends on the program and the number of elements alone.

namespace ct::map::chain {
namespace {

using namespace map;

// For the values of a tile. More than an L1 cache of 32 KB is no loss: the last values are in it, and long tiles read memory in
// fewer streams (measured: 16 KB 20% slower, 256 KB the same).
constexpr std::int64_t kCacheBytes = 48 << 10, kMaxTile = 4096, kMinTile = 256;
constexpr int kTemporaries =
    map::kMaxInputs + 1;  // operands in another type than they are held as, and a result

// Elements between a dtype and what it is held as, or a type that formulas compute in.
Runs runs_to(DType storage, DType in) {
  if (in == DType::boolean) return kRuns<bool, bool>;
  return runs_of(storage, in == DType::f64 ? Compute::f64 : Compute::f32);
}
DType type_of(Compute c) { return c == Compute::f64 ? DType::f64 : DType::f32; }

struct Call {
  const Program& program;
  LayoutOf<kMaxOperands> layout;
  Operand in[kMaxInputs], out[kMaxOutputs];
  std::int64_t tile = 0;
  std::size_t slot_bytes = 0, temporary_bytes = 0;

  explicit Call(const Program& its_program) : program(its_program) {}
  std::size_t bytes() const {
    return static_cast<std::size_t>(program.slots) * slot_bytes + kTemporaries * temporary_bytes;
  }
};

struct Scratch {
  std::unique_ptr<std::byte[]> memory;
  std::size_t size = 0;
  alignas(64) Filled filled[kMaxInputs + kMaxSteps];  // inputs of one number, and the program's own

  std::byte* grown(std::size_t bytes) {
    if (size < bytes) memory = std::make_unique<std::byte[]>((size = bytes) + 64);
    const auto at = reinterpret_cast<std::uintptr_t>(memory.get());
    return memory.get() + (64 - at % 64) % 64;
  }
};

// Tiles of one thread.
class Pass {
 public:
  Pass(const Call& call, Scratch& scratch)
      : c_(call),
        p_(call.program),
        slots_(scratch.grown(call.bytes())),
        temporaries_(slots_ + static_cast<std::size_t>(p_.slots) * c_.slot_bytes) {
    for (int v = 0; v < p_.inputs; ++v) {
      step_[v] = 1;
      if (c_.in[v].data && c_.in[v].scalar) fill_with(v, scratch.filled[v], c_.in[v].run, c_.in[v].data);
    }
    for (std::size_t s = 0; s < p_.steps.size(); ++s) {
      if (p_.steps[s].operand_count > 0) continue;
      const int v = p_.inputs + static_cast<int>(s);
      const Scalar& number = p_.steps[s].numbers.p;
      auto f32 = number.to<float>();
      auto f64 = number.to<double>();
      auto truth = number.to<bool>();
      void* const at = type(v) == DType::f32   ? static_cast<void*>(&f32)
                       : type(v) == DType::f64 ? static_cast<void*>(&f64)
                                               : &truth;
      fill_with(v, scratch.filled[v], runs_to(type(v), type(v)).read, at);
    }
  }

  void tile(std::int64_t first, std::int64_t n) {
    first_ = first;
    n_ = n;
    for (int v = 0; v < p_.inputs; ++v)
      if (step_[v] == 1) at_[v] = nullptr;
    for (std::size_t s = 0; s < p_.steps.size(); ++s)
      if (p_.steps[s].operand_count > 0) run_step(s);
  }

 private:
  DType type(int v) const { return held(p_.dtypes[static_cast<std::size_t>(v)]); }

  void fill_with(int v, Filled& filled, Run run, void* number) {
    run(filled.bytes, number, 0, simd::kVectorBytes / static_cast<std::int64_t>(size_of(type(v))));
    at_[v] = filled.bytes;
    step_[v] = 0;
  }

  // Value v of the tile, as it is held.
  void* fetch(int v) {
    if (at_[v]) return at_[v];
    const Operand& in = c_.in[v];
    if (in.as_is && in.linear) return at_[v] = in.data + first_ * static_cast<std::int64_t>(in.size);
    at_[v] = slots_ + static_cast<std::size_t>(p_.input_slots[static_cast<std::size_t>(v)]) * c_.slot_bytes;
    move_block(c_.layout, in, at_[v], size_of(type(v)), first_, n_);
    return at_[v];
  }
  // The same in another type, in a temporary.
  void* fetch_as(DType wanted, int v, int temporary) {
    void* const from = fetch(v);
    const DType has = type(v);
    if (has == wanted) return from;
    void* const to = temporaries_ + static_cast<std::size_t>(temporary) * c_.temporary_bytes;
    const std::int64_t n = step_[v] ? n_ : simd::kVectorBytes / static_cast<std::int64_t>(size_of(wanted));
    convert(from, has, step_[v], to, wanted, n);
    return to;
  }
  static void convert(void* from, DType has, std::ptrdiff_t step, void* to, DType wanted, std::int64_t n) {
    const auto each = [&]<class From, class To>(From*, To* y) {
      for (std::int64_t i = 0; i < n; ++i) y[i] = narrow<To>(static_cast<const From*>(from)[i * step]);
    };
    const auto to_bool = [&](auto* like) { each(like, static_cast<bool*>(to)); };
    if (wanted == DType::boolean && has != DType::boolean)
      has == DType::f64 ? to_bool(static_cast<double*>(from)) : to_bool(static_cast<float*>(from));
    else if (has == DType::f64 && wanted == DType::f32)
      each(static_cast<double*>(from), static_cast<float*>(to));
    else
      runs_to(has, wanted).read(to, from, step, n);
  }

  void run_step(std::size_t s) {
    const Step& step = p_.steps[s];
    const Program::Plan& plan = p_.plans[s];
    const int v = p_.inputs + static_cast<int>(s);
    const DType dtype = p_.dtypes[static_cast<std::size_t>(v)], holds = type(v);
    const Operand* const out = plan.output < 0 ? nullptr : &c_.out[plan.output];
    const Operand* const direct = out && out->as_is && out->linear ? out : nullptr;
    const bool streams = direct && direct->streams && p_.last_use[static_cast<std::size_t>(v)] == s;
    void* to = slots_ + static_cast<std::size_t>(plan.slot) * c_.slot_bytes;
    if (direct) to = direct->data + first_ * static_cast<std::int64_t>(direct->size);
    if (step.formula) {
      const DType computes = type_of(plan.compute);
      const bool same = step.formula->tiles->predicate || computes == holds;
      Tile tile;
      for (int k = 0; k < step.operand_count; ++k) {
        tile.in[k] = fetch_as(computes, step.operands[k], k);
        tile.step[k] = step_[step.operands[k]];
      }
      if (step.formula->draws) {
        auto* const words = reinterpret_cast<std::uint32_t*>(
            temporaries_ + static_cast<std::size_t>(step.operand_count) * c_.temporary_bytes);
        tile.in[step.operand_count] = words;
        tile.step[step.operand_count] = 1;
        if (step.draw.threshold > 0) {
          fill_words(step.draw.state.now(), static_cast<std::uint64_t>(first_), n_, words);
          tile.last = static_cast<std::uint32_t>(step.draw.threshold - 1);
        } else {  // none is drawn
          std::fill_n(words, n_, ~std::uint32_t{0});
        }
      }
      void* const result = same ? to : temporaries_ + std::size_t{map::kMaxInputs} * c_.temporary_bytes;
      tile.out[0] = result;
      tile.n = n_;
      tile.parameters = &plan.numbers;
      tile.streams = streams && same && !step.formula->tiles->predicate && simd::streams_to(to);
      plan.tile(tile);
      if (!same) convert(result, computes, 1, to, holds, n_);
    } else {
      convert(fetch(step.operands[0]), type(step.operands[0]), step_[step.operands[0]], to, holds, n_);
    }
    const bool rounds = step.formula ? p_.round_between : p_.dtypes[step.operands[0]] != dtype;
    if (rounds && is_low_precision(dtype)) {
      void* const low = temporaries_;
      runs_of(dtype, Compute::f32).write(to, low, 1, n_);
      runs_of(dtype, Compute::f32).read(to, low, 1, n_);
    }
    at_[v] = to;
    step_[v] = 1;
    if (out && !direct) write(*out, to, size_of(holds));
  }

  void write(const Operand& out, void* block, std::size_t held_size) {
    if (!out.streams) return move_block(c_.layout, out, block, held_size, first_, n_);
    out.run(block, temporaries_, 1, n_);
    simd::stream(out.data + first_ * static_cast<std::int64_t>(out.size), temporaries_,
                 static_cast<std::size_t>(n_) * out.size);
  }

  const Call& c_;
  const Program& p_;
  std::byte *slots_, *temporaries_;
  std::int64_t first_ = 0, n_ = 0;
  void* at_[kMaxInputs + kMaxSteps];
  std::uint8_t step_[kMaxInputs + kMaxSteps] = {};
};

static_assert(sizeof(Call) < 64 << 10, "it lies on the stack");
void plan(Call& c, std::span<const Tensor* const> outputs, std::span<const Tensor* const> inputs) {
  const Program& p = c.program;
  const Tensor* tensors[kMaxOperands];
  std::copy(inputs.begin(), inputs.end(), std::copy(outputs.begin(), outputs.end(), tensors));
  for (std::size_t k = 0; k < inputs.size(); ++k)
    if (p.input_slots[k] < 0) tensors[outputs.size() + k] = nullptr;
  const std::span<const Tensor* const> operands(tensors, outputs.size() + inputs.size());
  c.layout.numel = outputs[0]->numel();
  lay_out(outputs[0]->shape(), operands, c.layout.rank, c.layout.sizes, c.layout.strides);
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const bool input = k >= outputs.size();
    Operand& operand = input ? c.in[k - outputs.size()] : c.out[k];
    operand = {};
    if (absent(operands[k])) continue;
    const Tensor& t = *operands[k];
    const std::size_t value = input ? k - outputs.size() : static_cast<std::size_t>(p.outputs[k]);
    const DType holds = held(p.dtypes[value]);
    const Runs runs = runs_to(t.dtype(), holds);
    const int at = static_cast<int>(k);
    operand = {static_cast<char*>(t.raw_data()),
               size_of(t.dtype()),
               t.dtype() == holds,
               false,
               c.layout.linear(at),
               input && c.layout.scalar(at),
               0,
               input ? runs.read : runs.write,
               c.layout.strides[k]};
  }
  for (std::size_t m = 0; m < outputs.size(); ++m) {
    Operand& out = c.out[m];
    out.streams =
        out.linear && simd::exceeds_caches(static_cast<std::size_t>(outputs[m]->nbytes())) &&
        std::none_of(c.in, c.in + inputs.size(), [&](const Operand& in) { return in.data == out.data; });
  }
  const std::int64_t size = p.wide ? 8 : 4;
  c.tile = std::clamp(kCacheBytes / (size * std::max(p.slots, 1)) / 64 * 64, kMinTile, kMaxTile);
  c.slot_bytes = static_cast<std::size_t>(c.tile * size);
  c.temporary_bytes = static_cast<std::size_t>(c.tile) * 8;
}

void run_tiles(const Call& c, std::int64_t begin, std::int64_t end) {
  Pass pass(c, per_thread<Scratch>());
  for (std::int64_t i = begin; i < end; i += c.tile) pass.tile(i, std::min(c.tile, end - i));
  if (std::any_of(c.out, c.out + c.program.outputs.size(), [](const Operand& out) { return out.streams; }))
    simd::fence();
}

bool run_chain_cpu(const Program& p, std::span<const Tensor* const> outputs,
                   std::span<const Tensor* const> inputs, bool only_prepare) {
  if (only_prepare) return true;
  Call c(p);
  plan(c, outputs, inputs);
  const auto steps = static_cast<std::int64_t>(p.steps.size());
  const std::int64_t grain =
      c.tile * std::max<std::int64_t>(1, Formula::kGrain / (c.tile * std::max<std::int64_t>(steps / 2, 1)));
  parallel_for(c.layout.numel, grain,
               [&](std::int64_t begin, std::int64_t end) { run_tiles(c, begin, end); });
  return true;
}

// Results stay in the caches, as they are read at once.
void run_elements_cpu(const Program& p, std::span<const Tensor* const> outputs,
                      std::span<const Tensor* const> inputs, std::int64_t begin, std::int64_t end) {
  Call c(p);
  plan(c, outputs, inputs);
  for (Operand& out : c.out) out.streams = false;
  run_tiles(c, begin, end);
}

}  // namespace
}  // namespace ct::map::chain

CT_FUNCTIONS(cpu, ChainFunctions, chain_functions, map::chain::run_chain_cpu, map::chain::run_elements_cpu)
