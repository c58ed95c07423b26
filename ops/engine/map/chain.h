#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cotangent/core/device/kernel_tables.h>
#include <cotangent/core/jit/launch.h>
#include <cotangent/core/op/around.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/engine/map/record.h>

// Programs: several formulas that run as one pass over memory. A step's operands are inputs and results of earlier steps; all
// are broadcast to the shape of the outputs. On the CPU each step runs its tile function from tile to tile in the L1 cache
// (chain_cpu.cpp), on a GPU one kernel is made of their texts (chain_cuda.cu).
//
// Values of dtype bool are held as such, f64 as f64, other floats as f32: 16 bits are read into f32 and rounded where they
// are written, or converted to by a step of their own. So results in f32 and f64 have the bits that the formulas have one by
// one, on the CPU; on a GPU the compiler may contract a product of one step and a sum of the next, but for programs that round
// between.

namespace ct::map::chain {

inline constexpr int kMaxInputs = 28, kMaxOutputs = 24, kMaxSteps = 640;
inline constexpr int kMaxOperands = kMaxInputs + kMaxOutputs;

struct Step {
  const char* name = "";  // of the op, for people
  /// Null: the operand in the dtype of the result; without operands the number p.
  const map::FormulaRecord* formula = nullptr;
  map::Parameters numbers{};
  map::Draw draw{};  // of a formula that draws, which wants contiguous tensors
  int operand_count = 0;
  /// On a GPU, where the program rounds between steps: with the functions of Lane<float, true>, as kernels of 16 bits that
  /// move chunks.
  bool rough = false;
  std::uint16_t operands[map::kMaxInputs]{};
};

/// The GPU's kernels of a program, made when it first runs there.
struct Compiled {
  virtual ~Compiled() = default;
};

struct Program {
  int inputs = 0;
  std::vector<DType> dtypes;  // of the values: the inputs, then the result of each step
  std::vector<Step> steps;
  std::vector<int> outputs;  // values
  /// Each step has the bits of the op that runs alone: results of 16 bits are rounded, and on a GPU nothing is contracted with the
  /// next step.
  bool round_between = false;
  /// Some step has the bits of its op in chunks of 16 bytes alone (Steady).
  bool in_chunks = false;

  /// Adds a step, and returns its result.
  int add(const Step& step, DType dtype) {
    steps.push_back(step);
    dtypes.push_back(dtype);
    return static_cast<int>(dtypes.size()) - 1;
  }
  int convert(int value, DType dtype) {
    Step step{.name = "copy", .operand_count = 1};
    step.operands[0] = static_cast<std::uint16_t>(value);
    return add(step, dtype);
  }

  // ---- Filled in by finish() ----
  struct Plan {
    map::TileFn tile = nullptr;
    map::Compute compute{};
    map::Parameters numbers{};
    int slot = 0;
    int output = -1;  // of the program, that the result is
  };
  std::vector<Plan> plans;              // of the steps
  std::vector<int> input_slots;         // -1: not read
  std::vector<std::uint16_t> last_use;  // of the values: the step that reads them last
  int slots = 0;
  bool wide = false;  // some value is f64, or computed in it
  mutable std::unique_ptr<Compiled> compiled{};
};

/// The dtype that a value is held as: f32, f64 or bool.
constexpr DType held(DType t) { return t == DType::f64 || t == DType::boolean ? t : DType::f32; }

/// The type that a formula computes in where its last operand has this dtype; false where it has no tile function for it.
bool computable(const map::FormulaRecord& formula, DType last, map::Compute& compute);

/// Drops steps that no output needs, gives each output a step of its own, and plans the passes. Whoever makes a program calls
/// it once. Throws ValueError beyond kMaxSteps.
void finish(Program& program);

/// Runs a program. `outputs`, of one shape, have the dtypes of their values, or f32 in place of 16 bits; `inputs` broadcast to
/// them, and have the dtypes of the program; one that is not read may be null. Nothing is allocated. An output that is alone
/// may be the memory of an input with the same layout. False where the GPU has no kernel for it: nothing is written then. A part of a call
/// of an op (core/device/in_call.h).
bool run(const Program& program, std::span<const Tensor* const> outputs,
         std::span<const Tensor* const> inputs);

/// The elements [begin, end) of the outputs, counted in row-major order, on the calling thread: on the CPU alone, for kernels that
/// call it from the chunks of their own work.
void run_elements(const Program& program, std::span<const Tensor* const> outputs,
                  std::span<const Tensor* const> inputs, std::int64_t begin, std::int64_t end);

/// Whether run() will run a program on such tensors: a GPU compiles its kernel. For whoever records calls of run(), as nothing can be
/// loaded into a GPU then.
bool ready(const Program& program, std::span<const Tensor* const> outputs,
           std::span<const Tensor* const> inputs);

/// Programs around a call of an op's kernel.
struct Wrapping final : detail::Around {
  struct Part {
    const Program* program = nullptr;  // null: memory
    std::span<const Tensor*const> outputs{}, inputs{};
    std::size_t passed = 0;  // the output that the kernel takes, or the input that it gives
    bool in_memory = true;   // others see that, too
  };
  Part load{}, store{};
  std::unique_ptr<Compiled>& compiled;

  explicit Wrapping(std::unique_ptr<Compiled>& kept) : compiled(kept) {}
  /// Null where the kernel takes none.
  const Program* before(const detail::KernelText& text) const { return text.loads ? load.program : nullptr; }
  const Program* behind(const detail::KernelText& text) const {
    return text.stores ? store.program : nullptr;
  }
  bool wraps(const detail::KernelText& text) const override { return before(text) || behind(text); }
  bool launch(const char* op, const detail::KernelText& text, unsigned blocks, unsigned threads,
              unsigned threads_y, std::size_t shared, const void* argument, std::size_t bytes) const override;
};

/// The CUDA text of a program, with one kernel, "chain", whose argument is a struct of words: the operands in memory, the number of
/// threads, 0, the sizes from axis 1 on, the strides of each operand, and the numbers of steps that name them.
struct Variant {
  int vector = 1;              // elements that a thread moves at once
  int rank = 1;                // of the layout
  bool wide_index = false;     // offsets of 64 bits
  std::uint64_t repeated = 0;  // bit k: operand k (outputs, then inputs) is one number along the last axis
  int passed = -1;             // an operand that a kernel of rows takes or gives in registers,
  bool in_memory = true;       // which is an output that is written, too
  std::vector<DType> storage;  // of the operands
};
/// Where a formula has the same bits in every kernel of a GPU: a compiler may choose which of its products it contracts with a sum,
/// and chooses by what stands around it. `in_chunks` are those that were seen to agree where both kernels move chunks of 16 bytes, in
/// f32 and 16 bits (ops/fusion/build_test.cpp).
enum class Steady : std::uint8_t { everywhere, in_chunks, nowhere };
Steady steadiness(std::string_view text, DType dtype);
/// Whether a formula names its number p, or q.
bool names_number(std::string_view text, char number);
std::string cuda_text(const Program& program, const Variant& variant);
/// The declarations alone: `library`, what all texts have in front, and the struct ct::map::chain::NAME::Program.
std::string library_text(bool draws);
std::string program_text(const Program& program, const Variant& variant, std::string_view name);
bool draws(const Program& program);
/// The text of an op's kernel in programs: its arguments are the op's, the load's and the store's.
std::string wrapped_text(const detail::KernelText& kernel, unsigned threads, const Wrapping& around,
                         const Variant& load, const Variant& store);

/// The program for people: a line for each step.
std::string describe(const Program& program);

}  // namespace ct::map::chain

namespace ct {
struct ChainFunctions {
  bool (*run)(const map::chain::Program& program, std::span<const Tensor* const> outputs,
              std::span<const Tensor* const> inputs, bool only_prepare);
  /// On the CPU alone.
  void (*run_elements)(const map::chain::Program& program, std::span<const Tensor* const> outputs,
                       std::span<const Tensor* const> inputs, std::int64_t begin, std::int64_t end) = nullptr;
  /// See Wrapping::launch(); on a GPU alone.
  bool (*launch)(const map::chain::Wrapping& around, const char* op, const detail::KernelText& text,
                 const CudaGrid& grid, const void* argument, std::size_t bytes) = nullptr;
};
CT_FUNCTION_TABLES(ChainFunctions, chain_functions)
}  // namespace ct
