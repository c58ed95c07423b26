#pragma once

#include <cstdint>
#include <vector>

#include <cotangent/core/op_def.h>
#include <cotangent/core/tensor.h>

// What layer_norm and rms_norm share: both bring every row of a tensor to a common scale, layer_norm around
// its mean (`centered`), rms_norm around 0. Each comes plain and with a residual that is added first (`add`).
//
//            inputs                                outputs
//   plain    x, weight, bias                       y, mean, rstd
//   add      x, residual, weight, bias             y, sum, mean, rstd
//
// rms_norm has neither bias nor mean.

namespace ct::norm {

struct Attrs {
  double eps;
  std::int64_t axes = 1;  // how many trailing axes make a row
};

struct Kind {
  bool centered, add;

  constexpr int weight() const { return 1 + add; }
  constexpr int bias() const { return 2 + add; }
  constexpr int mean() const { return 1 + add; }
  constexpr int rstd() const { return 1 + add + centered; }
  constexpr const char* name() const {
    return centered ? add ? "add_layer_norm" : "layer_norm" : add ? "add_rms_norm" : "rms_norm";
  }
};

/// A contiguous tensor seen as [rows, columns].
struct Layout {
  std::int64_t rows = 1, columns = 1;

  Layout(const Shape& shape, std::int64_t axes) {
    for (int i = 0; i < shape.size(); ++i) (i < shape.size() - axes ? rows : columns) *= shape[i];
  }
};

/// What a forward kernel works on: everything contiguous, undefined where it does not exist.
struct ForwardCall {
  const char* op;
  Tensor x, residual, weight, bias, y, sum, mean, rstd;
  Layout layout;
  double eps;

  ForwardCall(const Forward& f, Kind kind);
};

/// The same for a backward kernel: dx = (gradient of the norm at g) + extra. Results are undefined where they
/// are not wanted; `extra` may be dx itself, to be added to.
struct BackwardCall {
  const char* op;
  Tensor x, g, extra, weight, mean, rstd, dx, dweight, dbias;
  bool accumulate_weight = false, accumulate_bias = false;
  Layout layout;
  bool work = false;  // otherwise everything is done already

  BackwardCall(const Backward& b, Kind kind);
};

/// How many trailing axes a weight or bias says that a row has.
std::int64_t row_axes(const Tensor& weight, const Tensor& bias = {});

void infer(Infer& in, Kind kind);
Cost cost(std::span<const TensorMeta> in, std::span<const TensorMeta> out, Kind kind);
std::vector<Tensor> reference(std::span<const Tensor> in, AttrsView attrs, Kind kind);
std::vector<Sample> samples(SampleMaker& make, Kind kind);
std::vector<ErrorSample> error_samples(SampleMaker& make, Kind kind);

template <bool kCentered, bool kAdd>
inline constexpr Kind kKind{kCentered, kAdd};

/// The op of a kind. What is kept: the rows that were normalized, weight and statistics.
template <bool kCentered, bool kAdd>
constexpr OpDef define(const char* formula, Kernels cpu, Kernels cuda) {
  constexpr const Kind& kind = kKind<kCentered, kAdd>;
  OpDef op{};
  op.name = kind.name();
  op.formula = formula;
  op.infer = [](Infer& in) { infer(in, kKind<kCentered, kAdd>); };
  op.cpu = cpu;
  op.cuda = cuda;
  op.cost = [](std::span<const TensorMeta> in, std::span<const TensorMeta> out, AttrsView) {
    return cost(in, out, kKind<kCentered, kAdd>);
  };
  op.reference = [](std::span<const Tensor> in, AttrsView attrs) {
    return reference(in, attrs, kKind<kCentered, kAdd>);
  };
  op.samples = [](SampleMaker& make) { return samples(make, kKind<kCentered, kAdd>); };
  op.error_samples = [](SampleMaker& make) { return error_samples(make, kKind<kCentered, kAdd>); };
  const auto bit = [](int i) { return 1u << i; };
  const std::uint32_t statistics = bit(kind.rstd()) | (kind.centered ? bit(kind.mean()) : 0u);
  // The rows are input 0, or with a residual output 1, the sum.
  const Saves rows{.inputs = kind.add ? 0u : 1u, .outputs = statistics | (kind.add ? 2u : 0u)};
  Saves with_weight = rows;
  with_weight.inputs |= bit(kind.weight());
  op.saves[0] = with_weight;
  if (kind.add) op.saves[1] = with_weight;
  op.saves[static_cast<std::size_t>(kind.weight())] = rows;
  op.autocast = AutocastPolicy::f32;
  op.accumulates = bit(kind.weight()) | (kind.centered ? bit(kind.bias()) : 0u) | (kind.add ? 0u : 1u);
  op.optional_inputs = bit(kind.weight()) | (kind.centered ? bit(kind.bias()) : 0u);
  op.differentiable_outputs = kind.add ? 0b11 : 0b01;
  op.undefined_grads = kind.add;
  return op;
}

}  // namespace ct::norm
