#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <cotangent/core/export.h>
#include <cotangent/core/op_def.h>
#include <cotangent/core/tensor.h>
#include <cotangent/ops/norm_use.h>

// What layer_norm and rms_norm share: both bring every row of a tensor to a common scale, layer_norm around
// its mean (`centered`), rms_norm around 0. Each comes plain and with a residual that is added first (`add`).
//
//            inputs                                outputs
//   plain    x, weight, bias                       y, mean, rstd
//   add      x, residual, weight, bias             y, sum, mean, rstd
//
// rms_norm has neither bias nor mean.
//
// Mixed precision (add alone): where x, and so the sum, the parameters and the statistics are f32, y may have
// 16 bits, and the residual too. Then it is the branch that products gave, y is what the next products take,
// and x is the stream between them. Their dtype is called L below, where T is x's.

namespace ct::norms {

struct Attrs {
  double eps;
  std::int64_t axes = 1;        // how many trailing axes make a row
  std::optional<DType> y = {};  // the dtype of y, if it is not x's
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

/// What deviations are multiplied by to be squared anew, where the sum of the squares of a row left the range
/// in which it is exact: rows near 1e25 in f32, or near 1e-25 if eps is as small. Otherwise 1.
template <class C>
CT_HD inline C rescue_scale(C squares, C columns, C eps) {
  constexpr C large = sizeof(C) == 4 ? C(0x1p100) : C(0x1p900), small = 1 / large;
  constexpr C down = sizeof(C) == 4 ? C(0x1p-80) : C(0x1p-600), up = 1 / down;
  if (!(squares < large)) return down;
  return squares < small * columns && eps < small ? up : C(1);
}

/// A contiguous tensor seen as [rows, columns].
struct Layout {
  std::int64_t rows = 1, columns = 1;

  Layout(const Shape& shape, std::int64_t axes) {
    for (int i = 0; i < shape.size(); ++i) (i < shape.size() - axes ? rows : columns) *= shape[i];
  }
};

/// What a forward kernel works on: everything contiguous, undefined where it does not exist. What is added to
/// x is `residual`, of x's dtype, or `low_residual`, of y's where that is another.
struct ForwardCall {
  const char* op;
  Tensor x, residual, low_residual, weight, bias, y, sum, mean, rstd;
  Layout layout;
  double eps;

  ForwardCall(const Forward& f, Kind kind);
};

/// The same for a backward kernel: dx = (gradient of the norm at g) + extra, low_dx the same rounded to g's
/// dtype. Results are undefined where they are not wanted; `extra` may be dx itself, to be added to.
struct BackwardCall {
  const char* op;
  Tensor x, g, extra, weight, mean, rstd, dx, low_dx, dweight, dbias;
  bool accumulate_weight = false, accumulate_bias = false;
  Layout layout;
  bool work = false;  // otherwise everything is done already

  BackwardCall(const Backward& b, Kind kind);
  /// To be called when the kernel has run.
  void finish(const Backward& b) const;

 private:
  bool narrow_ = false;  // the residual's gradient is dx in another dtype than the kernel writes
};

/// Calls go with the types T and L; a plain norm has but one.
template <bool kAdd, class Go>
void visit_types(const char* op, DType x, DType y, const Go& go) {
  if constexpr (kAdd) {
    if (x == DType::f32 && y == DType::bf16) return go(TypeTag<float>{}, TypeTag<BFloat16>{});
    if (x == DType::f32 && y == DType::f16) return go(TypeTag<float>{}, TypeTag<Half>{});
  }
  visit_floating(op, x, [&](auto type) { go(type, type); });
}

/// How many trailing axes a weight or bias says that a row has.
std::int64_t row_axes(const Tensor& weight, const Tensor& bias = {});

/// What an add op is called with: x and residual, the 16-bit one second, and y's dtype as Attrs want it.
struct Addends {
  const Tensor &x, &residual;
  std::optional<DType> y;
};
Addends addends(const char* op, const Tensor& x, const Tensor& residual, NormUse use);

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
  op.low_inputs = kind.add ? 0b10 : 0;
  op.accumulates = bit(kind.weight()) | (kind.centered ? bit(kind.bias()) : 0u) | (kind.add ? 0u : 1u);
  op.optional_inputs = bit(kind.weight()) | (kind.centered ? bit(kind.bias()) : 0u);
  op.differentiable_outputs = kind.add ? 0b11 : 0b01;
  op.undefined_grads = kind.add;
  return op;
}

}  // namespace ct::norms
