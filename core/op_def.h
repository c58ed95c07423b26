#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include <cotangent/core/dtype.h>
#include <cotangent/core/export.h>
#include <cotangent/core/tensor.h>

// An op is a plain constant, OpDef: its name, how result shapes follow from its inputs, its forward and
// backward kernels per device, what backward needs to see, and how it is tested. dispatch() reads it to run
// the op, the tape to go back through it, the conformance suite to check it, the benchmarks to price it.
//
// Kernels get one argument, Forward or Backward, and know nothing of the tape.

namespace ct {

struct OpDef;

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
  const Tensor& in(int i) const { return checked(saved_inputs[static_cast<std::size_t>(i)], "input", i); }
  const Tensor& out(int k = 0) const {
    return checked(saved_outputs[static_cast<std::size_t>(k)], "output", k);
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
  CT_API const Tensor& checked(const Tensor& t, const char* what, int i) const;
};

using InferFn = void (*)(Infer&);
using ForwardFn = void (*)(const Forward&);
using BackwardFn = void (*)(const Backward&);

/// The kernels of one device.
struct Kernels {
  ForwardFn forward = nullptr;
  BackwardFn backward = nullptr;
};

/// Which saved values the gradient of one input needs: bit i of `inputs` for input i, bit k of `outputs` for
/// output k. What is not named here is not kept alive.
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

/// Everything there is to know of an op.
struct OpDef {
  const char* name;
  /// The formula, for documentation and for explaining a tape: "y = tanh(x)".
  const char* formula;
  InferFn infer;
  Kernels cpu;
  Kernels cuda;
  /// Per input, what its gradient needs. Inputs past the end of the list need nothing.
  std::array<Saves, 6> saves{};
  /// Inputs and outputs that gradients flow through; indices, masks and statistics are left out.
  std::uint32_t differentiable_inputs = 0xffffffffu;
  std::uint32_t differentiable_outputs = 0x1u;
  /// False for comparisons, argmax and the like: no backward exists.
  bool differentiable = true;
  /// Inputs whose gradient kernel can add to an existing gradient (see Backward::accumulate).
  std::uint32_t accumulates = 0;
  /// Inputs whose gradient kernel can write f32, and add to f32, where the input has 16 bits. The gradient of
  /// a parameter that was converted for the op then goes to the f32 parameter without being rounded on its
  /// way (see Backward::grad_dtype).
  std::uint32_t wide_grads = 0;
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
  /// Inputs that keep a dtype of their own (indices, masks): not promoted, not compared.
  std::uint32_t free_dtype_inputs = 0;
  /// Inputs that may have 16 bits where input 0 is f32. Autocast leaves them so where they have its dtype.
  std::uint32_t low_inputs = 0;
  /// Inputs that may be undefined.
  std::uint32_t optional_inputs = 0;
  /// Inputs that may live on another device than input 0.
  std::uint32_t free_device_inputs = 0;
  /// Dtypes that input 0 (and all inputs that are not free) may have.
  DTypeSet dtypes = kFloatingTypes;
  CostFn cost = nullptr;
  ReferenceFn reference = nullptr;
  SamplesFn samples = nullptr;
  ErrorSamplesFn error_samples = nullptr;
  /// Multiplies the comparison tolerances of the conformance suite, for ops that lose digits by nature.
  double tolerance_scale = 1;
};

namespace detail {
/// f == nullptr, where the compiler can tell: under -fsanitize=undefined g++ takes the comparison of a
/// function's address with null for a matter of run time.
template <class F>
consteval bool missing(F f) {
  return __builtin_constant_p(f == nullptr) ? f == nullptr : false;
}
}  // namespace detail

/// Checks an OpDef while compiling: a differentiable op without a backward kernel does not build.
consteval OpDef checked(OpDef op) {
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
