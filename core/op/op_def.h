#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/device/kernel_tables.h>
#include <cotangent/core/op/op_call.h>
#include <cotangent/core/op/op_records.h>
#include <cotangent/core/tensor/tensor.h>

// An op is a plain constant, OpDef, that describes itself: its name, its inputs, outputs and attributes with
// their names, how result shapes follow from its inputs, its forward and backward kernels per device, what
// backward needs to see. dispatch() reads it to run the op, the tape to go back through it, the conformance suite to
// check it, messages and docs/ops.md to name things, the benchmarks to price it. What it is tested with stands apart
// (ops/testing/samples.h).
//
// Kernels get one argument, Forward or Backward, and know nothing of the tape.

namespace ct {

/// The kernels of one device.
struct Kernels {
  ForwardFn forward = nullptr;
  BackwardFn backward = nullptr;
};

/// A line of a device's table of kernels (CT_KERNELS): those of the op of that name. An op that no gradient flows
/// through has forward_only("argmax", kernel).
struct KernelEntry {
  const char* op;
  Kernels kernels;

  consteval KernelEntry(const char* name, ForwardFn forward, BackwardFn backward);

 private:
  struct ForwardOnly {};
  constexpr KernelEntry(const char* name, ForwardFn forward, ForwardOnly)
      : op(name), kernels{forward, nullptr} {}
  friend consteval KernelEntry forward_only(const char* name, ForwardFn forward);
};

/// Kernels that a call runs: the fast ones of a device, or in f64 on the CPU the plain ones, where the op has any. Those are
/// NAME_plain.h: the code for a learner, and the reference of the fast kernels, values and gradients.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \
    "-Wshadow"  // g++ before 13 takes a scoped enumerator for one that hides ct::cpu
enum class KernelKind : std::uint8_t { cpu, cuda, plain };
#pragma GCC diagnostic pop

namespace detail {
/// The kernels of an op, once they have been looked up. A copy of the op looks them up again.
struct LinkedKernels {
  bool ready[3] = {false, false, false};  // by KernelKind
  Kernels kernels[3];
  bool has_plain = false;  // those of KernelKind::plain are not the CPU's

  constexpr LinkedKernels() = default;
  constexpr LinkedKernels(const LinkedKernels&) {}
  constexpr LinkedKernels& operator=(const LinkedKernels&) { return *this; }
};
}  // namespace detail

/// Least cost of a call: floating-point operations, and bytes moved.
struct Cost {
  double flops = 0;
  double bytes = 0;
};

/// Sets of dtypes, as bits.
using DTypeSet = std::uint32_t;
constexpr DTypeSet dtype_bit(DType t) { return 1u << static_cast<int>(t); }
inline constexpr DTypeSet kFloatingTypes = 0x0f;
inline constexpr DTypeSet kNumericTypes = 0x7f;
inline constexpr DTypeSet kAllTypes = 0xff;

/// Conversion of an op's floating inputs under ct::Autocast (ops/autocast.h). f64, integers and inputs with
/// a dtype of their own stay as they are.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \
    "-Wshadow"  // g++ before 13 takes a scoped enumerator for one that hides ct::f32
enum class AutocastPolicy : std::uint8_t {
  promote,  // inputs of different dtypes are converted to the widest, else left alone
  lower,    // f32 becomes the guard's dtype: products, which tensor cores speed up
  f32,      // f16 and bf16 become f32: sums, exponentials, statistics, losses
};
#pragma GCC diagnostic pop

using CostFn = Cost (*)(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs,
                        AttrsView attrs);

/// Everything there is to know of an op. The records say it by name; the fields that `checked` derives say the
/// same in bits (bit i for input i, the last bit for all that follow), which is what the hot path reads.
struct OpDef {
  const char* name;
  /// The formula, for people; docs/ops.md shows it: "y = tanh(x)".
  const char* formula;
  /// The inputs in order, and the outputs; each a constant array.
  std::span<const InputDef> inputs{};
  std::span<const OutputDef> outputs{};
  /// The fields of the struct that dispatch() is called with; none for an op without attributes.
  std::span<const AttrDef> attributes{};
  InferFn infer;
  /// The kernels of a room's op stand apart, in tables (CT_KERNELS): &kernel_tables::NAME, of CT_KERNEL_TABLES(NAME).
  const KernelTables* kernels = nullptr;
  /// The kernels where they are named here: an op of a program's own, or one whose kernels know no device.
  Kernels cpu{};
  Kernels cuda{};
  Kernels plain{};
  /// The kernels of the CPU run in f64 too; the plain ones are called by the conformance suite alone, which holds them
  /// all to these, f64 as well. For ops whose f64 is wanted fast, and for engines that other kernels call in f64.
  bool fast_f64 = false;
  /// The gradient once more, as a composition of differentiable ops: what grad(..., {.create_graph = true})
  /// records, and what the backward kernels are held against. It reads saved values as tensors on the tape and
  /// hands its results over with set_grad_in(). Null: the op has no derivatives beyond the first.
  BackwardFn rule = nullptr;
  /// Each gradient of the rule is one op, which rounds once as the kernel does: a product. It is given 16 bits as they are,
  /// where other rules compute in f32, as kernels do, and are rounded at their end.
  bool low_rule = false;
  /// Why there is no rule, for the message: "its masks are drawn anew".
  const char* no_rule = nullptr;
  /// The kernel copes with undefined cotangents of some outputs.
  bool undefined_grads = false;
  /// The outputs are views of input 0: infer says which, there is no forward kernel.
  bool view = false;
  /// The output is input 0, in a dtype of its own: the gradient is the cotangent, converted.
  bool converts = false;
  /// Inputs of different dtypes are converted to their promoted dtype first.
  bool promotes = false;
  /// Integer and bool inputs are converted to f32 (exp, mean of a ratio): for ops that only floats have.
  bool int_to_float = false;
  AutocastPolicy autocast = AutocastPolicy::promote;
  /// Dtypes that input 0 (and all inputs that do not keep a dtype of their own) may have.
  DTypeSet dtypes = kFloatingTypes;
  /// Floating-point operations for each element of its largest tensor.
  double flops_each = 0;
  /// The cost of an op whose operations do not follow from flops_each (a product) or that leaves tensors unread (a gather).
  /// Bytes of 0 stand for every tensor moved once.
  CostFn cost = nullptr;

  // ---- Derived by checked() from the records ----
  std::array<Saves, kMaxInputDefs> saves{};
  std::uint32_t differentiable_inputs = 0;
  std::uint32_t differentiable_outputs = 0;
  bool differentiable = false;
  std::uint32_t accumulates = 0;
  std::uint32_t wide_grads = 0;
  std::uint32_t free_dtype_inputs = 0;
  std::uint32_t low_inputs = 0;
  std::uint32_t optional_inputs = 0;
  std::uint32_t free_device_inputs = 0;
  std::uint32_t all_saved_inputs = 0;  // what some gradient reads
  std::uint32_t contiguous_inputs = 0;
  std::uint32_t contiguous_saved = 0;  // of the inputs, for the backward kernel
  std::uint32_t contiguous_outputs = 0;
  std::uint32_t attr_bytes = 0;      // that the struct of attributes has at least
  bool optional_attributes = false;  // numbers alone, which are 0 where they are left out

  // ---- Filled in by kernels_of() ----
  mutable detail::LinkedKernels linked{};
};

namespace detail {
/// f == nullptr, where the compiler can tell: under -fsanitize=undefined g++ takes the comparison of a
/// function's address with null for a matter of run time.
template <class F>
consteval bool missing(F f) {
  return __builtin_constant_p(f == nullptr) ? f == nullptr : false;
}

/// The bit of record k of n; of a record that stands for the rest, also all that follow.
constexpr std::uint32_t record_bits(std::size_t k, bool rest) { return rest ? ~0u << k : 1u << k; }

/// Adds what `needs` names to `saves`.
constexpr void add_needs(const OpDef& op, std::string_view needs, Saves& saves) {
  while (!needs.empty()) {
    const std::size_t end = needs.find(' ');
    const std::string_view word = needs.substr(0, end);
    needs = end < needs.size() ? needs.substr(end + 1) : std::string_view();
    bool found = false;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (word != op.inputs[i].name) continue;
      saves.inputs |= record_bits(i, op.inputs[i].rest);
      found = true;
    }
    for (std::size_t k = 0; k < op.outputs.size(); ++k) {
      if (word != op.outputs[k].name) continue;
      saves.outputs |= record_bits(k, op.outputs[k].rest);
      found = true;
    }
    if (!found) throw "an input needs something that is neither an input nor an output of its op";
  }
}

constexpr OpDef derived(OpDef op) {
  if (op.inputs.size() > kMaxInputDefs) throw "an op has more input records than kMaxInputDefs";
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const InputDef& in = op.inputs[i];
    const std::uint32_t bits = record_bits(i, in.rest);
    if (in.rest && i + 1 != op.inputs.size()) throw "only the last input record can stand for the rest";
    if (in.gradient) op.differentiable_inputs |= bits;
    if (in.accumulates) op.accumulates |= bits;
    if (in.wide_grad) op.wide_grads |= bits;
    if (in.any_dtype) op.free_dtype_inputs |= bits;
    if (in.low) op.low_inputs |= bits;
    if (in.optional) op.optional_inputs |= bits;
    if (in.any_device) op.free_device_inputs |= bits;
    if (in.contiguous) op.contiguous_inputs |= bits;
    if (in.contiguous_saved) op.contiguous_saved |= bits;
    if (!in.gradient && *in.needs) throw "an input without gradient needs nothing";
    add_needs(op, in.needs, op.saves[i]);
    op.all_saved_inputs |= op.saves[i].inputs;
  }
  for (std::size_t k = 0; k < op.outputs.size(); ++k) {
    if (op.outputs[k].gradient) op.differentiable_outputs |= record_bits(k, op.outputs[k].rest);
    if (op.outputs[k].contiguous) op.contiguous_outputs |= record_bits(k, op.outputs[k].rest);
  }
  op.optional_attributes = true;
  for (const AttrDef& attr : op.attributes) {
    op.attr_bytes = std::max(op.attr_bytes, std::uint32_t{attr.offset} + attr.size);
    op.optional_attributes = op.optional_attributes && attr.type == AttrType::number;
  }
  op.contiguous_saved |= op.contiguous_inputs;
  op.differentiable = op.differentiable_inputs != 0 && op.differentiable_outputs != 0;
  return op;
}
}  // namespace detail

/// Values that the gradient of input i reads.
constexpr const Saves& saves_of(const OpDef& op, std::size_t i) {
  return op.saves[i < op.inputs.size() ? i : op.inputs.size() - 1];
}

/// Completes an OpDef and checks it while compiling: one that names neither kernels nor tables of them does not build, nor
/// a differentiable one with one direction alone, nor one that needs what it does not have.
consteval OpDef checked(OpDef op) {
  op = detail::derived(op);
  if (op.inputs.empty()) throw "an op needs the records of its inputs";
  if (op.outputs.empty()) throw "an op needs the records of its outputs";
  if (detail::missing(op.infer)) throw "an op needs a shape rule";
  if (op.kernels == nullptr && !op.view && detail::missing(op.cpu.forward))
    throw "an op needs a forward kernel";
  if (op.view && op.differentiable && detail::missing(op.cpu.backward))
    throw "a differentiable op needs a backward kernel";
  // An op may lack CUDA kernels altogether (a user's own); one direction alone is a mistake.
  for (const Kernels& kernels : {op.cpu, op.cuda, op.plain})
    if (!detail::missing(kernels.forward) && op.differentiable && detail::missing(kernels.backward))
      throw "a differentiable op needs a backward kernel";
  return op;
}

consteval KernelEntry::KernelEntry(const char* name, ForwardFn forward, BackwardFn backward)
    : op(name), kernels{forward, backward} {
  if (detail::missing(forward)) throw "an op needs a forward kernel";
  if (detail::missing(backward)) throw "an op needs a backward kernel, or is an entry of forward_only()";
}
consteval KernelEntry forward_only(const char* name, ForwardFn forward) {
  if (detail::missing(forward)) throw "an op needs a forward kernel";
  return {name, forward, KernelEntry::ForwardOnly{}};
}

namespace detail {
/// Fills in op.linked: what the OpDef names, or what its tables hold.
CT_API void link_kernels(const OpDef& op, KernelKind kind);
}  // namespace detail

/// Kind of kernels that a call of `op` runs, by its first input.
constexpr KernelKind kernel_kind(const OpDef& op, Device device, DType dtype) {
  if (device.is_cuda()) return KernelKind::cuda;
  return dtype == DType::f64 && !op.fast_f64 ? KernelKind::plain : KernelKind::cpu;
}

/// The kernels of `op` of a kind, null where it has none. An op without plain ones runs those of the CPU in f64 too.
inline Kernels kernels_of(const OpDef& op, KernelKind kind) {
  const auto i = static_cast<std::size_t>(kind);
  if (!std::atomic_ref(op.linked.ready[i]).load(std::memory_order_acquire)) [[unlikely]]
    detail::link_kernels(op, kind);
  return op.linked.kernels[i];
}

/// Bits of the tensors that kernels get contiguous: kernels of `kind` those of `bits`, plain kernels all. After kernels_of().
inline std::uint32_t contiguous_for(const OpDef& op, KernelKind kind, std::uint32_t bits) {
  return kind == KernelKind::plain && op.linked.has_plain ? ~0u : bits;
}
/// Whether t, tensor i of `records`, is to be copied for kernels that get `wanted` contiguous.
template <class Def>
bool wants_copy(std::span<const Def> records, std::uint32_t wanted, std::size_t i, const Tensor& t) {
  if (!mask_bit(wanted, i) || !t.defined() || t.is_contiguous()) return false;
  const auto readable = records[std::min(i, records.size() - 1)].readable;
  return wanted == ~0u || !readable || !readable(t);
}

/// Bytes of all these tensors.
CT_API double bytes_of(std::span<const TensorMeta> tensors);
/// Least cost of a call, by OpDef::cost or else by flops_each with every tensor moved once; nothing for a view.
CT_API Cost cost_of(const OpDef& op, std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs,
                    AttrsView attrs);
/// OpDef::cost of an op that reads as many elements of input 0 as it writes.
CT_API Cost gather_cost(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs, AttrsView);
/// The record of input i.
constexpr const InputDef& input_record(const OpDef& op, std::size_t i) {
  const std::size_t last = op.inputs.size() - 1;
  const std::uint8_t turn = op.inputs[last].turn;
  return op.inputs[i < last ? i : turn > 0 ? last - turn + (i - last) % turn : last];
}

/// The attributes of a call in words, "axis = 1, keepdim = true"; empty for an op without.
CT_API std::string describe_attributes(const OpDef& op, AttrsView attrs);

}  // namespace ct

/// The kernels that a file of a room brings: CT_KERNELS(cpu, softmax, {"softmax", forward, backward}, ...) in
/// softmax_cpu.cpp, outside of namespaces; NAME_cuda.cu and NAME_plain.cpp likewise, and NAME_PART_cuda.cu. Ops of one
/// NAME.cpp that programs use apart from each other have a table each, of the same name on every device.
#define CT_KERNELS(device, name, ...)                                  \
  namespace ct::device##_kernels {                                     \
    extern const KernelTable name;                                     \
    namespace {                                                        \
    constexpr KernelEntry name##_entries[] = {__VA_ARGS__};            \
    }                                                                  \
    const KernelTable name{name##_entries, std::size(name##_entries)}; \
  }

/// Declares kernel_tables::NAME, in namespace ct: the tables of that name, of CT_KERNELS in an op's files.
#define CT_KERNEL_TABLES(name)    \
  namespace kernel_tables {       \
  extern const KernelTables name; \
  }
