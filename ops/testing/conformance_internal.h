#pragma once

#include <string>
#include <vector>

#include <cotangent/core/op_def.h>

// Calls of an op, and comparisons of what they give, for the conformance suite.

namespace ct::conformance {

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

inline bool takes_gradient(const OpDef& op, std::size_t i, const Tensor& t) {
  return t.defined() && is_floating(t.dtype()) && mask_bit(op.differentiable_inputs, i);
}

/// What forward and backward gave.
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

}  // namespace ct::conformance
