#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/normalization/norm_use.h>
#include <cotangent/ops/normalization/rescue_internal.h>

// Shared parts of layer_norm and rms_norm: both bring every row of a tensor to a common scale, layer_norm around
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

namespace ct::normalization {

struct Attrs {
  double eps;
  std::int64_t axes = 1;  // how many trailing axes make a row
  bool converts = false;  // y has a dtype of its own:
  DType y = DType::f32;

  Attrs(double eps, std::int64_t axes, std::optional<DType> own = {})
      : eps(eps), axes(axes), converts(own.has_value()), y(own.value_or(DType::f32)) {}
  DType y_dtype(DType x) const { return converts ? y : x; }
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

/// Tensors of a forward kernel; undefined where one does not exist. The addend of x is `residual`, of x's dtype, or
/// `low_residual`, of y's where that is another.
struct ForwardCall {
  const char* op;
  Tensor x, residual, low_residual, weight, bias, y, sum, mean, rstd;
  Layout layout;
  double eps;
  bool work = false;  // false: the constructor has written all results (empty tensors)

  ForwardCall(const Forward& f, Kind kind);
};

/// The same for a backward kernel: dx = (gradient of the norm at g) + extra, low_dx the same rounded to g's
/// dtype. Results are undefined where they are not wanted; `extra` may be dx itself, to be added to.
struct BackwardCall {
  const char* op;
  Tensor x, g, extra, weight, mean, rstd, dx, low_dx, dweight, dbias;
  bool accumulate_weight = false, accumulate_bias = false;
  Layout layout;
  bool work = false;  // false: the constructor has already written all results (empty tensors, no cotangent)

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
  visit_fast(op, x, [&](auto type) { go(type, type); });
}

/// How many trailing axes a weight or bias says that a row has.
std::int64_t row_axes(const Tensor& weight, const Tensor& bias = {});

/// Operands of an add op: x and residual, the 16-bit one second, and y's dtype as Attrs want it.
struct Addends {
  const Tensor &x, &residual;
  std::optional<DType> y;
};
Addends addends(const char* op, const Tensor& x, const Tensor& residual, NormUse use);

void infer(Infer& in, Kind kind);
void rule(const Backward& b, Kind kind);

template <bool kCentered, bool kAdd>
inline constexpr Kind kKind{kCentered, kAdd};

inline constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, eps), CT_ATTRIBUTE(Attrs, axes),
                                          CT_ATTRIBUTE(Attrs, converts), CT_ATTRIBUTE(Attrs, y)};

/// The op of a kind.
template <bool kCentered, bool kAdd>
consteval OpDef define(const char* formula, std::span<const InputDef> inputs,
                       std::span<const OutputDef> outputs, const KernelTables* kernels) {
  constexpr const Kind& kind = kKind<kCentered, kAdd>;
  return checked({.name = kind.name(),
                  .formula = formula,
                  .inputs = inputs,
                  .outputs = outputs,
                  .attributes = kAttributes,
                  .infer = [](Infer& in) { infer(in, kKind<kCentered, kAdd>); },
                  .kernels = kernels,
                  .rule = [](const Backward& b) { rule(b, kKind<kCentered, kAdd>); },
                  .undefined_grads = kAdd,
                  .autocast = AutocastPolicy::f32,
                  .flops_each = kCentered ? 7 : 4});
}

}  // namespace ct::normalization
