#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <cotangent/core/dtype.h>
#include <cotangent/core/export.h>
#include <cotangent/core/tensor.h>

// An op is a plain constant, OpDef, that describes itself: its name, its inputs, outputs and attributes with
// their names, how result shapes follow from its inputs, its forward and backward kernels per device, what
// backward needs to see, and how it is tested. dispatch() reads it to run the op, the tape to go back through
// it, the conformance suite to check it, messages and docs/ops.md to name things, the benchmarks to price it.
//
// Kernels get one argument, Forward or Backward, and know nothing of the tape.

namespace ct {

struct OpDef;
struct GeneratorState;

/// Attributes of a call (an axis, a probability): a trivially copyable struct of at most kMaxAttrBytes,
/// passed by reference and copied into the tape.
inline constexpr std::size_t kMaxAttrBytes = 256;
struct AttrsView {
  const void* data = nullptr;
  std::size_t size = 0;

  AttrsView() = default;
  AttrsView(const void* from, std::size_t bytes) : data(from), size(bytes) {}
  template <class A>
  requires std::is_trivially_copyable_v<A> &&(!std::is_pointer_v<A>)AttrsView(const A& attrs)
      : data(&attrs), size(sizeof(A)) {
    static_assert(sizeof(A) <= kMaxAttrBytes, "op attributes must fit in kMaxAttrBytes");
  }
};
/// Attributes held by value.
struct AnyAttrs {
  alignas(16) std::array<std::byte, kMaxAttrBytes> bytes;
  std::size_t size = 0;

  AnyAttrs() = default;
  template <class A>
  requires std::is_trivially_copyable_v<A> AnyAttrs(const A& attrs) : size(sizeof(A)) {
    static_assert(sizeof(A) <= kMaxAttrBytes);
    std::memcpy(bytes.data(), &attrs, sizeof(A));
  }
  AttrsView view() const { return {bytes.data(), size}; }
};

/// At most so many outputs per op.
inline constexpr int kMaxOutputs = 4;
/// At most so many records of inputs; a record may stand for any number of inputs.
inline constexpr std::size_t kMaxInputDefs = 12;

/// The name of input i ("weight", or "tensors[3]" where one record stands for many), or of output k.
CT_API std::string input_name(const OpDef& op, std::size_t i);
CT_API std::string output_name(const OpDef& op, std::size_t k);

/// Given to OpDef::infer: reads the inputs' shapes and declares the outputs in order.
class Infer {
 public:
  Infer(const OpDef& the_op, std::span<const Tensor* const> its_inputs, AttrsView attrs)
      : op(the_op), inputs(its_inputs), attrs_(attrs) {}

  const OpDef& op;
  std::span<const Tensor* const> inputs;

  int input_count() const { return static_cast<int>(inputs.size()); }
  /// Input i; undefined if an optional input was left out.
  const Tensor& in(int i) const { return *inputs[static_cast<std::size_t>(i)]; }
  template <class A>
  const A& attrs() const {
    return *static_cast<const A*>(attrs_.data);
  }
  /// Declares the next output: a fresh contiguous tensor.
  void output(const Shape& shape, DType dtype) {
    outputs_[static_cast<std::size_t>(count_++)] = {shape, dtype, {}, 0, {}, false};
  }
  /// The same on a device of its own instead of the inputs' device.
  void output_on(const Shape& shape, DType dtype, Device device) {
    outputs_[static_cast<std::size_t>(count_++)] = {shape, dtype, {}, 0, device, true};
  }
  /// The next output by its strides, of input 0's dtype: of a view op a view of input 0 (the offset counted
  /// from the start of its storage), else a fresh one without gaps.
  void output_strided(const Shape& shape, const Strides& strides, std::int64_t offset = 0) {
    outputs_[static_cast<std::size_t>(count_++)] = {shape, in(0).dtype(), strides, offset, {}, false};
  }

  struct Output {
    Shape shape;
    DType dtype;
    Strides strides;      // empty: contiguous
    std::int64_t offset;  // views only
    Device device;        // only if placed
    bool placed;          // declared by output_on
  };
  int output_count() const { return count_; }
  const Output& out(int k) const { return outputs_[static_cast<std::size_t>(k)]; }

 private:
  AttrsView attrs_;
  std::array<Output, kMaxOutputs> outputs_;
  int count_ = 0;
};

/// Given to a forward kernel: inputs as the caller passed them (any strides), outputs already allocated.
struct Forward {
  const OpDef& op;
  std::span<const Tensor* const> inputs;
  std::span<Tensor> outputs;
  AttrsView attrs_view;

  const Tensor& in(int i) const { return *inputs[static_cast<std::size_t>(i)]; }
  bool has(int i) const { return static_cast<std::size_t>(i) < inputs.size() && in(i).defined(); }
  /// Output k: laid out as declared, except when an elementwise op runs in place on a strided tensor.
  Tensor& out(int k = 0) const { return outputs[static_cast<std::size_t>(k)]; }
  template <class A>
  const A& attrs() const {
    return *static_cast<const A*>(attrs_view.data);
  }
};

/// What is asked of the gradient of one input.
enum GradFlag : std::uint8_t {
  kGradNeeded = 1,
  kGradAccumulate = 2,
  kGradWide = 4,  // in f32, although the input has 16 bits
};

/// Bit i of a mask over inputs or outputs. The last bit stands for all that follow, so that ops with any
/// number of inputs (concat) fit.
constexpr bool mask_bit(std::uint32_t mask, std::size_t i) { return mask >> (i < 31 ? i : 31) & 1u; }

/// Given to a backward kernel: the cotangents of the outputs, the saved values that the OpDef declared, and
/// the gradients to produce.
struct Backward {
  const OpDef& op;
  AttrsView attrs_view;
  std::span<const Tensor> grads;            // cotangents of the outputs, any strides
  std::span<const Tensor> saved_inputs;     // undefined where not declared
  std::span<const Tensor> saved_outputs;    // undefined where not declared
  std::span<const TensorMeta> input_metas;  // of all inputs
  std::span<Tensor> grad_inputs;            // results; those with accumulate() hold a partial sum already
  std::span<const std::uint8_t> flags;      // GradFlag bits per input
  bool last = false;  // the saved values are freed after this call: the tape is not kept

  int input_count() const { return static_cast<int>(input_metas.size()); }
  /// The cotangent of output k. Always defined (zeros if nothing flowed back), unless the op declares
  /// undefined_grads, in which case it may be undefined.
  const Tensor& grad(int k = 0) const { return grads[static_cast<std::size_t>(k)]; }
  const Tensor& in(int i) const {
    const Tensor& t = saved_inputs[static_cast<std::size_t>(i)];
    if (!t.defined()) [[unlikely]]
      fail_not_saved("input '" + input_name(op, static_cast<std::size_t>(i)) + "'");
    return t;
  }
  const Tensor& out(int k = 0) const {
    const Tensor& t = saved_outputs[static_cast<std::size_t>(k)];
    if (!t.defined()) [[unlikely]]
      fail_not_saved("output '" + output_name(op, static_cast<std::size_t>(k)) + "'");
    return t;
  }
  const TensorMeta& in_meta(int i) const { return input_metas[static_cast<std::size_t>(i)]; }
  template <class A>
  const A& attrs() const {
    return *static_cast<const A*>(attrs_view.data);
  }

  /// Whether the gradient of input i is wanted. Kernels skip what is not.
  bool needs(int i) const { return flags[static_cast<std::size_t>(i)] & kGradNeeded; }
  /// Whether grad_in(i) already holds a gradient that the kernel must add to (only for ops that declare
  /// accumulates for input i).
  bool accumulate(int i) const { return flags[static_cast<std::size_t>(i)] & kGradAccumulate; }
  /// The dtype of the gradient of input i: the input's, or f32 where that is asked of an op that declares
  /// wide_grads for input i.
  DType grad_dtype(int i) const {
    return flags[static_cast<std::size_t>(i)] & kGradWide ? DType::f32 : in_meta(i).dtype;
  }
  /// The gradient of input i to write: contiguous, of the input's shape and of grad_dtype(i); allocated on
  /// first use.
  Tensor& grad_in(int i) const {
    Tensor& g = grad_inputs[static_cast<std::size_t>(i)];
    if (!g.defined()) g = Tensor::allocate(in_meta(i).shape, grad_dtype(i), in_meta(i).device);
    return g;
  }
  /// The same, but written over a saved value, `saved` = in(j) or out(k), where nobody can tell: the tape is
  /// not kept, this call's is the last tensor over that storage (no handle, no view, no other saved value),
  /// and the layout fits. Elsewhere it is grad_in(i). For kernels that read an element of `saved` for the
  /// last time when they write that element of the gradient; of cotangents and other values nothing changes.
  CT_API Tensor& grad_in_over(int i, const Tensor& saved) const;
  /// Hands over a finished gradient instead: the cotangent itself, or a view of it. Not after grad_in(i).
  void set_grad_in(int i, Tensor g) const { grad_inputs[static_cast<std::size_t>(i)] = std::move(g); }

 private:
  [[noreturn, gnu::cold]] CT_API void fail_not_saved(const std::string& what) const;
};

using InferFn = void (*)(Infer&);
using ForwardFn = void (*)(const Forward&);
using BackwardFn = void (*)(const Backward&);

/// The kernels of one device.
struct Kernels {
  ForwardFn forward = nullptr;
  BackwardFn backward = nullptr;
};

/// What there is to know of one input. What is not said is not so.
struct InputDef {
  const char* name;
  /// The inputs and outputs that its gradient reads beside the cotangents, by name: "x", "w y". Nothing else is
  /// kept alive for backward.
  const char* needs = "";
  /// False for indices, masks and other inputs that no gradient flows to.
  bool gradient = true;
  /// The gradient's kernel can add to an existing gradient (see Backward::accumulate).
  bool accumulates = false;
  /// The gradient's kernel can write f32, and add to f32, where the input has 16 bits. The gradient of a
  /// parameter that was converted for the op then goes to the f32 parameter without being rounded on its way
  /// (see Backward::grad_dtype).
  bool wide_grad = false;
  /// May be undefined.
  bool optional = false;
  /// Keeps a dtype of its own (an index, a mask): not promoted, not compared.
  bool any_dtype = false;
  /// May live on another device than input 0.
  bool any_device = false;
  /// May have 16 bits where input 0 is f32. Autocast leaves it so where it has its dtype.
  bool low = false;
  /// Stands for all inputs from here on (the tensors of concat). Only the last record.
  bool rest = false;
};

/// What there is to know of one output.
struct OutputDef {
  const char* name;
  /// False where no gradient flows back from it: indices, masks, statistics, truth values.
  bool gradient = true;
  /// Stands for all outputs from here on. Only the last record.
  bool rest = false;
};

/// The type of an attribute, as a struct of attributes holds it.
enum class AttrType : std::uint8_t {
  boolean,
  i32,
  i64,
  u32,
  u64,
  f64,
  number,  // Scalar
  dims,    // Shape, Dims
  dtype,
  device,
  choice,  // an enum: AttrDef::choices names its values
  draw,    // GeneratorState: which random numbers are drawn
};
/// One attribute: its name, its type, and where it lies in the struct that is passed to dispatch().
struct AttrDef {
  const char* name;
  AttrType type;
  std::uint16_t offset;
  std::uint16_t size;
  /// The names of a choice's values from 0 on, separated by spaces.
  const char* choices = "";
};

namespace detail {
template <class T>
consteval AttrType attr_type() {
  if constexpr (std::is_same_v<T, bool>)
    return AttrType::boolean;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return AttrType::i32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return AttrType::i64;
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return AttrType::u32;
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return AttrType::u64;
  else if constexpr (std::is_same_v<T, double>)
    return AttrType::f64;
  else if constexpr (std::is_same_v<T, Scalar>)
    return AttrType::number;
  else if constexpr (std::is_same_v<T, Dims>)
    return AttrType::dims;
  else if constexpr (std::is_same_v<T, DType>)
    return AttrType::dtype;
  else if constexpr (std::is_same_v<T, Device>)
    return AttrType::device;
  else if constexpr (std::is_same_v<T, GeneratorState>)
    return AttrType::draw;
  else
    return std::is_enum_v<T> ? AttrType::choice : throw "an attribute of a type that AttrType does not have";
}
}  // namespace detail

/// The record of one field of an attribute struct: CT_ATTRIBUTE(SoftmaxAttrs, axis), or with the names of an
/// enum's values CT_ATTRIBUTE(LossAttrs, reduction, "none mean sum").
#define CT_ATTRIBUTE(Struct, member, ...)                                                     \
  ::ct::AttrDef {                                                                             \
#member, ::ct::detail::attr_type < decltype(Struct::member)>(), offsetof(Struct, member), \
        sizeof(Struct::member) __VA_OPT__(, ) __VA_ARGS__                                     \
  }

/// Which saved values the gradient of one input needs: bit i of `inputs` for input i, bit k of `outputs` for
/// output k.
struct Saves {
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
};

/// What a call costs at least: floating-point operations, and bytes with every tensor moved once.
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

/// One call with which an op is tested. Floating inputs are given in f64 on the CPU; the conformance suite
/// converts them to every dtype, device and layout. Integer and bool inputs are used as they are.
struct Sample {
  std::vector<Tensor> inputs;
  AnyAttrs attrs;
  const char* label = "";
  /// False where the function has a kink or jump at the sample's values: skips central differences only.
  bool smooth = true;
};
/// A call that must fail, with a piece of the message it must fail with.
struct ErrorSample {
  std::vector<Tensor> inputs;
  AnyAttrs attrs;
  const char* message = "";
};

/// Makes sample tensors: f64 on the CPU, the same in every run.
class CT_API SampleMaker {
 public:
  explicit SampleMaker(std::uint64_t seed) : state_(seed) {}
  /// Values of a normal distribution; no two the same, none near 0.
  Tensor normal(const Shape& shape);
  Tensor uniform(const Shape& shape, double low, double high);
  /// i64 in [0, limit).
  Tensor index(const Shape& shape, std::int64_t limit);
  Tensor mask(const Shape& shape);
  Tensor values(const Shape& shape, std::initializer_list<double> values);

 private:
  double next();
  std::uint64_t state_;
};

/// What becomes of an op's floating inputs under ct::Autocast (ops/autocast.h). f64, integers and inputs with
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
/// The oracle: the op's outputs computed in f64 on the CPU in the plainest way, or from other ops.
using ReferenceFn = std::vector<Tensor> (*)(std::span<const Tensor> inputs, AttrsView attrs);
using SamplesFn = std::vector<Sample> (*)(SampleMaker&);
using ErrorSamplesFn = std::vector<ErrorSample> (*)(SampleMaker&);

/// Everything there is to know of an op. The records say it by name; the fields that `checked` derives say the
/// same in bits (bit i for input i, the last bit for all that follow), which is what the hot path reads.
struct OpDef {
  const char* name;
  /// The formula, for documentation and for explaining a tape: "y = tanh(x)".
  const char* formula;
  /// The inputs in order, and the outputs; each a constant array.
  std::span<const InputDef> inputs{};
  std::span<const OutputDef> outputs{};
  /// The fields of the struct that dispatch() is called with; none for an op without attributes.
  std::span<const AttrDef> attributes{};
  InferFn infer;
  Kernels cpu{};
  Kernels cuda{};
  /// The gradient once more, as a composition of differentiable ops: what grad(..., {.create_graph = true})
  /// records, and what the backward kernels are held against. It reads saved values as tensors on the tape and
  /// hands its results over with set_grad_in(). Null: the op has no derivatives beyond the first.
  BackwardFn rule = nullptr;
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
  CostFn cost = nullptr;
  ReferenceFn reference = nullptr;
  SamplesFn samples = nullptr;
  ErrorSamplesFn error_samples = nullptr;
  /// Multiplies the comparison tolerances of the conformance suite, for ops that lose digits by nature.
  double tolerance_scale = 1;

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
    const std::size_t end = std::min(needs.find(' '), needs.size());
    const std::string_view word = needs.substr(0, end);
    needs.remove_prefix(std::min(end + 1, needs.size()));
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
    if (!in.gradient && *in.needs) throw "an input without gradient needs nothing";
    add_needs(op, in.needs, op.saves[i]);
    op.all_saved_inputs |= op.saves[i].inputs;
  }
  for (std::size_t k = 0; k < op.outputs.size(); ++k)
    if (op.outputs[k].gradient) op.differentiable_outputs |= record_bits(k, op.outputs[k].rest);
  op.differentiable = op.differentiable_inputs != 0 && op.differentiable_outputs != 0;
  return op;
}
}  // namespace detail

/// What the gradient of input i reads.
constexpr const Saves& saves_of(const OpDef& op, std::size_t i) {
  return op.saves[i < op.inputs.size() ? i : op.inputs.size() - 1];
}

/// Completes an OpDef and checks it while compiling: a differentiable op without a backward kernel does not
/// build, nor one that needs what it does not have.
consteval OpDef checked(OpDef op) {
  op = detail::derived(op);
  if (op.inputs.empty()) throw "an op needs the records of its inputs";
  if (op.outputs.empty()) throw "an op needs the records of its outputs";
  if (detail::missing(op.infer)) throw "an op needs a shape rule";
  if (!op.view && detail::missing(op.cpu.forward)) throw "an op needs a forward kernel";
  if (op.differentiable && detail::missing(op.cpu.backward))
    throw "a differentiable op needs a backward kernel";
  // An op may lack CUDA kernels altogether (a user's own); one direction alone is a mistake.
  if (op.cuda.forward != nullptr && op.differentiable && op.cuda.backward == nullptr)
    throw "a differentiable op needs a CUDA backward kernel";
  if (detail::missing(op.samples)) throw "an op needs samples, or no test would run it";
  return op;
}

/// The attributes of a call in words, "axis = 1, keepdim = true"; empty for an op without.
CT_API std::string describe_attributes(const OpDef& op, AttrsView attrs);

}  // namespace ct

/// The CUDA kernels of one of the library's own rooms; empty in a build without CUDA, so that the room links without
/// them. An op of a program's own names its Kernels directly.
#ifdef COTANGENT_CUDA
#define CT_CUDA_KERNELS(...) \
  ::ct::Kernels { __VA_ARGS__ }
#else
#define CT_CUDA_KERNELS(...) \
  ::ct::Kernels {}
#endif
