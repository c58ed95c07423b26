#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

// One call of an op, as its shape rule and its kernels see it: the attributes, and the one argument that each of
// them gets. None of them knows of the tape.

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
  /// Declares the next output: a fresh contiguous tensor. Throws Error beyond kMaxOutputs, as the others do.
  void output(const Shape& shape, DType dtype) {
    Output& out = next();
    out.shape = shape;
    out.dtype = dtype;
  }
  /// The same on a device of its own instead of the inputs' device.
  void output_on(const Shape& shape, DType dtype, Device device) {
    next() = {shape, dtype, {}, 0, device, true};
  }
  /// The next output by its strides, of input 0's dtype: of a view op a view of input 0 (the offset counted
  /// from the start of its storage), else a fresh one without gaps.
  void output_strided(const Shape& shape, const Strides& strides, std::int64_t offset = 0) {
    next() = {shape, in(0).dtype(), strides, offset, {}, false};
  }

  /// Declares the next output as one whose shape only its values tell (nonzero, unique): the kernel gets an empty tensor
  /// of that dtype, on the inputs' device, and says the shape with Forward::allocate_out.
  void output_later(DType dtype) { output({0}, dtype); }

  struct Output {
    Shape shape;
    DType dtype;
    Strides strides;          // empty: contiguous
    std::int64_t offset = 0;  // views only
    Device device;            // only if placed
    bool placed = false;      // declared by output_on
  };
  int output_count() const { return count_; }
  const Output& out(int k) const { return declared_.outputs[k]; }

 private:
  Output& next() {
    if (count_ == kMaxOutputs) [[unlikely]]
      fail_too_many();
    return *::new (&declared_.outputs[count_++]) Output;  // Output() would fill all of it with zeros first
  }
  [[noreturn, gnu::cold]] CT_API void fail_too_many() const;

  AttrsView attrs_;
  // Made one by one: most ops have one output, and calls of small tensors notice what the others would cost.
  union Declared {
    Declared() {}
    Output outputs[kMaxOutputs];
  } declared_;
  int count_ = 0;
};

/// Given to a forward kernel: inputs as the caller passed them (any strides), outputs already allocated, but for those
/// whose shape it tells itself.
struct Forward {
  const OpDef& op;
  std::span<const Tensor* const> inputs;
  std::span<Tensor> outputs;
  AttrsView attrs_view;

  const Tensor& in(int i) const { return *inputs[static_cast<std::size_t>(i)]; }
  bool has(int i) const { return static_cast<std::size_t>(i) < inputs.size() && in(i).defined(); }
  /// Output k: laid out as declared, except when an elementwise op runs in place on a strided tensor.
  Tensor& out(int k = 0) const { return outputs[static_cast<std::size_t>(k)]; }
  /// Output k, declared with Infer::output_later, in the shape that it turns out to have: contiguous, uninitialized.
  Tensor& allocate_out(int k, const Shape& shape) const {
    return out(k) = Tensor::allocate(shape, out(k).dtype(), out(k).device());
  }
  template <class A>
  const A& attrs() const {
    return *static_cast<const A*>(attrs_view.data);
  }
};

/// Request for the gradient of one input.
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
  /// The cotangent of output k. Defined (zeros if nothing flowed back), unless the op declares undefined_grads, or
  /// gradients flow back from one output alone, which this is not: then it may be undefined.
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

}  // namespace ct
