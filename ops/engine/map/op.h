#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <cotangent/core/op_def.h>
#include <cotangent/ops/engine/map/unary.h>

// What the OpDefs of elementwise families have in common: shape rules, cost, oracle, samples.

namespace ct::elementwise {

// ---- Shapes -------------------------------------------------------------------------------------------

inline void infer_unary(Infer& i) { i.output(i.in(0).shape(), i.in(0).dtype()); }
/// All inputs broadcast to one shape.
inline void infer_broadcast(Infer& i) {
  Shape shape = i.in(0).shape();
  for (int k = 1; k < i.input_count(); ++k) shape = broadcast_shapes(i.op.name, shape, i.in(k).shape());
  i.output(shape, i.in(0).dtype());
}
inline void infer_unary_predicate(Infer& i) { i.output(i.in(0).shape(), DType::boolean); }

// ---- Cost: one operation per element, every tensor moved once -----------------------------------------

inline Cost elementwise_cost(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs,
                             AttrsView) {
  Cost cost;
  for (const TensorMeta& t : inputs)
    cost.bytes += static_cast<double>(numel(t.shape)) * static_cast<double>(size_of(t.dtype));
  for (const TensorMeta& t : outputs) {
    cost.flops += static_cast<double>(numel(t.shape));
    cost.bytes += static_cast<double>(numel(t.shape)) * static_cast<double>(size_of(t.dtype));
  }
  return cost;
}

// ---- Records of inputs and outputs ---------------------------------------------------------------------

// By what a table's `saved` column says.
inline constexpr InputDef kX[] = {{.name = "x"}};
inline constexpr InputDef kXNeedsX[] = {{.name = "x", .needs = "x"}};
inline constexpr InputDef kXNeedsY[] = {{.name = "x", .needs = "y"}};
inline constexpr InputDef kXWithoutGradient[] = {{.name = "x", .gradient = false}};
constexpr std::span<const InputDef> unary_inputs(Saved saved) {
  return saved == Saved::x ? kXNeedsX : saved == Saved::y ? kXNeedsY : kX;
}
inline constexpr OutputDef kY[] = {{.name = "y"}};
inline constexpr OutputDef kTruth[] = {{.name = "y", .gradient = false}};

// The numbers of a formula, by the names that they have there.
inline constexpr AttrDef kParameters[] = {CT_ATTRIBUTE(Parameters, p), CT_ATTRIBUTE(Parameters, q)};

// ---- Oracle: a plain function of doubles, applied to contiguous or strided f64 tensors ------------------

using UnaryReference = double (*)(double x, double p, double q);

template <UnaryReference f>
std::vector<Tensor> unary_reference(std::span<const Tensor> inputs, AttrsView attrs) {
  const Parameters parameters = parameters_of(attrs);
  const std::vector<double> x = inputs[0].to_vector<double>();
  Tensor y = Tensor::allocate(inputs[0].shape(), DType::f64, cpu);
  double* to = static_cast<double*>(y.raw_data());
  for (std::size_t i = 0; i < x.size(); ++i)
    to[i] = f(x[i], parameters.p.to<double>(), parameters.q.to<double>());
  return {y};
}

// ---- Samples ------------------------------------------------------------------------------------------

// One input of every shape that finds a path of the kernels: scalar, empty, size 1, shorter than a vector,
// odd, several axes, whole vectors, several chunks.
template <class Make>
std::vector<Sample> unary_samples(Make&& make, AnyAttrs attrs = {}, bool smooth = true) {
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 0, 2}, Shape{1}, Shape{1, 7}, Shape{3, 5, 7},
                             Shape{4, 16}, Shape{2, 131}})
    samples.push_back({{make(shape)}, attrs, "", smooth});
  return samples;
}

inline std::vector<Sample> samples_real(SampleMaker& m) {
  return unary_samples([&](const Shape& s) { return m.normal(s); });
}
inline std::vector<Sample> samples_positive(SampleMaker& m) {
  return unary_samples([&](const Shape& s) { return m.uniform(s, 0.5, 3); });
}
// Away from 0 on both sides.
inline std::vector<Sample> samples_nonzero(SampleMaker& m) {
  std::vector<Sample> samples = unary_samples([&](const Shape& s) { return m.uniform(s, 0.5, 3); });
  samples.push_back({{m.uniform({4, 9}, -3, -0.5)}, {}, "negative"});
  return samples;
}
// A kink at 0: values off it, and 0 itself without central differences.
inline std::vector<Sample> samples_kink(SampleMaker& m) {
  std::vector<Sample> samples = samples_real(m);
  samples.push_back({{m.values({5}, {-1, 0, 2, 0, -0.5})}, {}, "zeros", false});
  return samples;
}

}  // namespace ct::elementwise
