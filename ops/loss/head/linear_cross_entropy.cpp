#include <cotangent/ops/loss/head/linear_cross_entropy.h>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/autocast.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/loss/classes/class_loss_internal.h>
#include <cotangent/ops/loss/head/linear_cross_entropy_internal.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/rules_internal.h>

namespace ct {
CT_KERNEL_TABLES(linear_cross_entropy)
namespace {

using namespace loss::head;
constexpr const char* kName = "linear_cross_entropy";

void infer_common(Infer& in) {
  const auto& attrs = in.attrs<Attrs>();
  const Tensor &x = in.in(0), &w = in.in(1), &target = in.in(2);
  CT_CHECK(w.dim() == 2 && w.size(0) > 0, ShapeError, kName, "weight is ", describe(w),
           "; it must be [classes, features] with at least one class");
  CT_CHECK(x.dim() > 0 && x.size(-1) == w.size(1), ShapeError, kName, "x is ", describe(x), ", weight is ",
           describe(w), "; x.size(-1) must equal weight.size(1)");
  const Shape rows(x.shape().begin(), static_cast<std::size_t>(x.dim() - 1));
  CT_CHECK(target.shape() == rows, ShapeError, kName, "target is ", describe(target), ", x is ", describe(x),
           "; class labels must have shape ", rows, ", one per row");
  CT_CHECK(target.dtype() == DType::i64 || target.dtype() == DType::i32, DTypeError, kName, "target is ",
           describe(target), "; class labels must be i64 or i32: convert with .to(i64)");
  CT_CHECK(attrs.label_smoothing >= 0 && attrs.label_smoothing <= 1, ValueError, kName, "label_smoothing is ",
           attrs.label_smoothing, "; it must lie in [0, 1]");
  CT_CHECK(attrs.chunk_rows >= 0, ValueError, kName, "chunk_rows is ", attrs.chunk_rows,
           "; it must be at least 1, or 0 for a choice by size");
  // Losses are few: those of 16-bit logits stay in f32.
  in.output(known(kName, attrs.reduction) == Reduction::none ? rows : Shape{}, accumulate_type(x.dtype()));
  in.output({stats_size(numel(rows))}, accumulate_type(x.dtype()));
}

void infer_lazy(Infer& in) {
  infer_common(in);
  CT_CHECK(in.attrs<Attrs>().eager == kNone, ValueError, in.op.name,
           "eager asks for gradients in forward; pass none, or call linear_cross_entropy");
}

void infer_eager(Infer& in) {
  infer_common(in);
  const auto& attrs = in.attrs<Attrs>();
  CT_CHECK(attrs.eager <= kBoth, ValueError, kName, "eager is ", static_cast<int>(attrs.eager),
           "; it must be none, x, weight or both");
  const DType dtype = in.in(0).dtype();
  in.output(attrs.eager & kX ? in.in(0).shape() : Shape{0}, dtype);
  in.output(attrs.eager & kWeight ? in.in(1).shape() : Shape{0}, accumulate_type(dtype));
}

Cost cost(std::span<const TensorMeta> in, std::span<const TensorMeta>, AttrsView attrs_view) {
  const auto& attrs = *static_cast<const Attrs*>(attrs_view.data);
  const double products = 1.0 + ((attrs.eager & kX) != 0) + ((attrs.eager & kWeight) != 0);
  return {.flops =
              2.0 * products * static_cast<double>(numel(in[0].shape)) * static_cast<double>(in[1].shape[0])};
}

// Composed over the logits, which are written as a whole: only higher derivatives pay for that.
void recompute_rule(const Backward& b) {
  const auto& attrs = b.attrs<Attrs>();
  const Tensor &x = b.in(0), &w = b.in(1), &labels = b.in(2);
  const std::int64_t rows = labels.numel(), features = w.size(1);
  const Tensor flat = x.reshape({rows, features}), flat_labels = labels.reshape({rows});
  const Tensor logits = matmul(flat, w.t());
  Tensor divisor;
  if (attrs.reduction == Reduction::mean)
    divisor = sum(ne(flat_labels, attrs.ignore_index).to(b.grad().dtype()));
  const Tensor g = loss::label_cotangents(b.grad(), attrs.reduction, labels, attrs.ignore_index, divisor)
                       .reshape({rows})
                       .to(x.dtype());
  const Tensor targets =
      loss::label_targets(flat_labels, {}, logits.meta(), attrs.ignore_index, attrs.label_smoothing);
  const Tensor slope = loss::cross_entropy_label_slope(logits, flat_labels, attrs.ignore_index, targets, g);
  if (b.needs(0)) b.set_grad_in(0, matmul(slope, w).reshape(x.shape()));
  if (b.needs(1)) b.set_grad_in(1, matmul(slope.t(), flat));
}

constexpr InputDef kEagerInputs[] = {
    {.name = "x", .needs = "statistics dx", .accumulates = true, .contiguous = true},
    {.name = "weight",
     .needs = "statistics dweight",
     .accumulates = true,
     .wide_grad = true,
     .contiguous = true},
    {.name = "t", .gradient = false, .any_dtype = true, .contiguous = true}};
constexpr OutputDef kEagerOutputs[] = {{.name = "y", .contiguous = true},
                                       {.name = "statistics", .gradient = false},
                                       {.name = "dx", .gradient = false},
                                       {.name = "dweight", .gradient = false}};
constexpr InputDef kInputs[] = {
    {.name = "x", .needs = "x weight t statistics", .accumulates = true, .contiguous = true},
    {.name = "weight",
     .needs = "x weight t statistics",
     .accumulates = true,
     .wide_grad = true,
     .contiguous = true},
    {.name = "t", .gradient = false, .any_dtype = true, .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true},
                                  {.name = "statistics", .gradient = false}};
constexpr AttrDef kAttributes[] = {
    CT_ATTRIBUTE(Attrs, reduction, kReductionNames), CT_ATTRIBUTE(Attrs, eager, "none x weight both"),
    CT_ATTRIBUTE(Attrs, ignore_index), CT_ATTRIBUTE(Attrs, label_smoothing), CT_ATTRIBUTE(Attrs, chunk_rows)};

}  // namespace

void loss::head::check_kept(const Backward& b) {
  const auto& attrs = b.attrs<Attrs>();
  CT_CHECK(
      attrs.reduction != Reduction::none, AutogradError, kName,
      "its gradients have one factor, and reduction = none gives each row one; pass mean or sum, or call "
      "linear_cross_entropy_recompute");
  for (int i = 0; i < 2; ++i)
    CT_CHECK(!b.needs(i) || attrs.eager >> i & 1, AutogradError, kName, "forward computed no gradient of ",
             b.op.inputs[static_cast<std::size_t>(i)].name,
             ", as its attribute eager says; pass eager = both, or call ", "linear_cross_entropy_recompute");
}

// Computes the gradients in forward, for a cotangent of 1; backward scales them. Not for f16, whose loss
// scale comes with the cotangent, nor for a cotangent per row.
constexpr OpDef k_linear_cross_entropy = checked({
    .name = "linear_cross_entropy",
    .formula = "y = reduce(logsumexp(x w^T) - (x w^T)[t])",
    .inputs = kEagerInputs,
    .outputs = kEagerOutputs,
    .attributes = kAttributes,
    .infer = infer_eager,
    .kernels = &kernel_tables::linear_cross_entropy,
    .no_rule = "it keeps its gradients and not what they were made of: pass {.recompute = true}",
    .autocast = AutocastPolicy::lower,
    .dtypes = dtype_bit(DType::f32) | dtype_bit(DType::f64) | dtype_bit(DType::bf16),
    .cost = cost,
});

// Keeps the inputs, logsumexp and the losses; backward makes the logits again.
constexpr OpDef k_linear_cross_entropy_recompute = checked({
    .name = "linear_cross_entropy_recompute",
    .formula = "y = reduce(logsumexp(x w^T) - (x w^T)[t])",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = infer_lazy,
    .kernels = &kernel_tables::linear_cross_entropy,
    .rule = recompute_rule,
    .autocast = AutocastPolicy::lower,
    .cost = cost,
});

CT_ROOM(linear_cross_entropy, &k_linear_cross_entropy, &k_linear_cross_entropy_recompute)

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target,
                            const LinearCrossEntropyOptions& options) {
  const auto wanted = [](const Tensor& t) { return t.defined() && t.requires_grad() && grad_enabled(); };
  Attrs attrs{options.reduction, kNone, options.ignore_index, options.label_smoothing, options.chunk_rows};
  const bool half =
      x.defined() && (x.dtype() == DType::f16 || (autocast_enabled() && autocast_dtype() == DType::f16));
  const bool eager =
      (wanted(x) || wanted(weight)) && !options.recompute && options.reduction != Reduction::none && !half;
  if (!eager) return dispatch(k_linear_cross_entropy_recompute, {x, weight, target}, attrs);
  attrs.eager = static_cast<Eager>((wanted(x) ? kX : 0) | (wanted(weight) ? kWeight : 0));
  return dispatch(k_linear_cross_entropy, {x, weight, target}, attrs);
}

}  // namespace ct
