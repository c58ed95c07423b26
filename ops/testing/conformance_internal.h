#pragma once

#include <map>
#include <string>
#include <vector>

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/testing/conformance.h>

// Calls of an op, and comparisons of their results, for the conformance suite.

namespace ct::testing::conformance {

using Tensors = std::vector<Tensor>;

/// Rounding of one result, plus a few steps of accumulation: inputs are of magnitude 1 and short.
double tolerance(DType t);

Tensors call(const OpDef& op, const Tensors& inputs, const AnyAttrs& attrs);

/// A sample's inputs in the dtype under test. Integer dtypes get small whole numbers; values that are already
/// integers or masks stay as they are.
Tensors convert(const OpDef& op, const Tensors& inputs, DType dtype, Device device);

/// The same values laid out otherwise: every second element of a longer row, or with the axes reversed in memory.
enum class Layout { contiguous, strided, transposed };
const char* name_of(Layout layout);
Tensor lay_out(const Tensor& t, Layout layout);
Tensors lay_out(const Tensors& ts, Layout layout);

/// The first place where two tensors differ by more than the tolerance; empty if there is none.
std::string difference(const Tensor& got, const Tensor& want, double tol);
bool same_bits(const Tensor& a, const Tensor& b);

/// An error in the cost of a call with these results: it must move the results at least, and at most its inputs and twice the
/// results (a gather); a view moves nothing. Empty if there is none.
std::string cost_problem(const OpDef& op, const Tensors& inputs, const Tensors& outputs,
                         const AnyAttrs& attrs);

inline bool takes_gradient(const OpDef& op, std::size_t i, const Tensor& t) {
  return t.defined() && is_floating(t.dtype()) && mask_bit(op.differentiable_inputs, i);
}

/// Results of forward and backward.
struct Gradients {
  Tensors outputs;
  Tensors grads;  // one per input; undefined where not wanted
};
/// Runs forward and backward with cotangents for the differentiable outputs, and gives the gradients of the
/// inputs selected by `wanted`, added up over `passes`.
Gradients differentiate(const OpDef& op, const Tensors& inputs, const AnyAttrs& attrs,
                        const Tensors& cotangents, std::uint32_t wanted, int passes = 1);
/// The first gradient that differs, in words; empty if there is none.
std::string compare_grads(const Gradients& got, const Gradients& want, double tol, const char* what);

/// Differentiates as differentiate(), recorded: the gradients are those of the rule.
Gradients differentiate_recorded(const OpDef& op, const Tensors& inputs, const AnyAttrs& attrs,
                                 const Tensors& cotangents, std::uint32_t wanted);
/// A call of a sample at points where formulas change their branch (zeros, ties, the numbers of the call, infinities, NaN):
/// wherever the kernel's gradient is finite the rule has the same, and so has the derivative along a direction; in f64
/// second derivatives are finite, symmetric and, but at kinks, the differences of the gradient. `volume` times as many
/// points are drawn; `extreme`: also of very large values and infinities. The first problem, or nothing.
std::string check_special_points(const OpDef& op, const Tensors& inputs, const AnyAttrs& attrs,
                                 const Tensors& cotangents, std::uint32_t all, double tol, bool extreme,
                                 std::uint64_t seed, int volume);

/// Calls that must not work: the error samples, and those that are made of the op's records and of one of its samples.
class BadCalls {
 public:
  BadCalls(const OpDef& op, const OpTests& tests, const std::vector<Sample>& samples,
           ConformanceReport& report)
      : op_(op), tests_(tests), samples_(samples), report_(report) {}
  /// Makes all calls on a device; errors on the first device are expected on the others.
  void check(SampleMaker& make, Device device);

 private:
  struct Fault;
  void check_samples(SampleMaker& make);
  void check_counts();
  void check_attributes();
  void check_dtypes();
  void check_devices();
  void check_shapes();
  void check_in_place();
  void check_backward();
  template <class F>
  void attempt(const Fault& fault, const Tensors& inputs, F&& run);
  void attempt(const Fault& fault, const Tensors& inputs);
  bool compared(std::size_t i) const { return good_[i].defined() && !mask_bit(op_.free_dtype_inputs, i); }

  const OpDef& op_;
  const OpTests& tests_;
  const std::vector<Sample>& samples_;
  ConformanceReport& report_;
  Device device_;
  const Sample* sample_ = nullptr;
  Tensors good_, results_;  // the sample's inputs on this device, and what the op makes of them
  std::map<std::string, std::string> texts_;  // what each call said, on the first device
};

}  // namespace ct::testing::conformance
