#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/loss/classes/cross_entropy.h>
#include <cotangent/ops/loss/classes/cross_entropy_internal.h>
#include <cotangent/ops/rules_internal.h>
#include <cotangent/ops/softmax/softmax.h>

namespace ct {
CT_KERNEL_TABLES(cross_entropy)
namespace {

using loss::ClassLayout;

void infer_common(Infer& in, bool soft) {
  const auto& attrs = in.attrs<CrossEntropyAttrs>();
  const Tensor& x = in.in(0);
  CT_CHECK(attrs.label_smoothing >= 0 && attrs.label_smoothing <= 1, ValueError, "cross_entropy",
           "label_smoothing is ", attrs.label_smoothing, "; it must lie in [0, 1]");
  in.output(
      known("cross_entropy", attrs.reduction) == Reduction::none ? loss::without_classes(x.shape()) : Shape{},
      x.dtype());
  in.output({cross_entropy_stats(ClassLayout(x.shape()), soft)}, accumulate_type(x.dtype()));
}

void cross_entropy_infer(Infer& in) {
  loss::check_scores("cross_entropy", "logits", in.in(0), in.in(2));
  loss::check_label_tensor("cross_entropy", "logits", in.in(0), in.in(1));
  infer_common(in, false);
}

void cross_entropy_soft_infer(Infer& in) {
  loss::check_scores("cross_entropy", "logits", in.in(0), in.in(2));
  CT_CHECK(in.in(0).shape() == in.in(1).shape(), ShapeError, "cross_entropy", "target is ",
           describe(in.in(1)), ", logits is ", describe(in.in(0)),
           "; probabilities must have the logits' shape, class labels must be i64 or i32");
  infer_common(in, true);
}

// ---- rules: dx = g (sum(q) softmax(x) - q) for a row of targets q ---------------------------------------

void cross_entropy_rule(const Backward& b) {
  if (!b.needs(0)) return;
  const auto& attrs = b.attrs<CrossEntropyAttrs>();
  const Tensor &labels = b.in(1), &weight = b.saved_inputs[2];
  const Tensor divisor = b.out(1).select(0, 2 * labels.numel());  // as kernels have it
  const Tensor g = loss::label_cotangents(b.grad(), attrs.reduction, labels, attrs.ignore_index, divisor);
  const Tensor targets =
      loss::label_targets(labels, weight, b.in_meta(0), attrs.ignore_index, attrs.label_smoothing);
  b.set_grad_in(0, loss::cross_entropy_label_slope(b.in(0), labels, attrs.ignore_index, targets, g));
}

// dt = -g (1 - s) w log_softmax(x).
void cross_entropy_soft_rule(const Backward& b) {
  const auto& attrs = b.attrs<CrossEntropyAttrs>();
  const Shape& shape = b.in_meta(0).shape;
  const int axis = loss::class_axis(shape);
  const double s = attrs.label_smoothing, classes = static_cast<double>(shape[axis]);
  const Tensor weight = loss::along_classes(b.saved_inputs[2], shape);
  const auto weighted = [&](const Tensor& t) { return weight.defined() ? t * weight : t; };
  const Tensor g = rules::spread(b.grad(), attrs.reduction, loss::without_classes(shape));
  if (b.needs(0)) {
    const Tensor targets = weighted(s > 0 ? b.in(1) * (1 - s) + s / classes : b.in(1));
    b.set_grad_in(0, loss::cross_entropy_slope(b.in(0), targets, g));
  }
  if (b.needs(1)) b.set_grad_in(1, weighted(log_softmax(b.in(0), axis) * (s - 1)) * g.unsqueeze(axis));
}

constexpr InputDef kInputs[] = {{.name = "x", .needs = "x t weight statistics", .contiguous = true},
                                {.name = "t", .gradient = false, .any_dtype = true, .contiguous = true},
                                {.name = "weight", .gradient = false, .optional = true, .contiguous = true}};
constexpr InputDef kSoftInputs[] = {
    {.name = "x", .needs = "x t weight statistics", .contiguous = true},
    {.name = "t", .needs = "x weight statistics", .contiguous = true},
    {.name = "weight", .gradient = false, .optional = true, .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true},
                                  {.name = "statistics", .gradient = false}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(CrossEntropyAttrs, reduction, kReductionNames),
                                   CT_ATTRIBUTE(CrossEntropyAttrs, ignore_index),
                                   CT_ATTRIBUTE(CrossEntropyAttrs, label_smoothing)};

}  // namespace

constexpr OpDef k_cross_entropy = checked({
    .name = "cross_entropy",
    .formula = "y = reduce(w[t] (logsumexp(x) - x[t]))",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = cross_entropy_infer,
    .kernels = &kernel_tables::cross_entropy,
    .rule = cross_entropy_rule,
    .autocast = AutocastPolicy::f32,
    .flops_each = 5,
});

constexpr OpDef k_cross_entropy_soft = checked({
    .name = "cross_entropy_soft",
    .formula = "y = reduce(sum_c w[c] t[c] (logsumexp(x) - x[c]))",
    .inputs = kSoftInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = cross_entropy_soft_infer,
    .kernels = &kernel_tables::cross_entropy,
    .rule = cross_entropy_soft_rule,
    .autocast = AutocastPolicy::f32,
    .flops_each = 5,
});

void cross_entropy_in_two(const Forward& f, FunctionRef<void(const Forward&)> forward,
                          FunctionRef<void(const Backward&)> backward) {
  const Tensor in[] = {f.in(0), f.in(1), f.in(2)}, out[] = {{}, f.out(1)}, g[] = {f.in(3), {}};
  forward({k_cross_entropy, f.inputs.first(3), f.outputs.first(2), f.attrs_view});
  const TensorMeta metas[] = {in[0].meta(), in[1].meta(), {}};
  constexpr std::uint8_t kFlags[] = {kGradNeeded, 0, 0};
  Tensor gradients[] = {f.out(2), {}, {}};
  backward({k_cross_entropy, f.attrs_view, g, in, out, metas, gradients, kFlags});
}
void cross_entropy_in_two(const Forward& f) {
  const Tensor& x = f.in(0);
  const Kernels kernels = kernels_of(k_cross_entropy, kernel_kind(k_cross_entropy, x.device(), x.dtype()));
  cross_entropy_in_two(f, *kernels.forward, *kernels.backward);
}

namespace {
constexpr InputDef untracked(InputDef in) {
  return {.name = in.name, .gradient = false, .optional = in.optional, .any_dtype = in.any_dtype};
}
constexpr InputDef kWithGradientInputs[] = {untracked(kInputs[0]), untracked(kInputs[1]),
                                            untracked(kInputs[2]), untracked({.name = "g"})};
constexpr OutputDef kWithGradientOutputs[] = {{.name = "y", .gradient = false},
                                              {.name = "statistics", .gradient = false},
                                              {.name = "dx", .gradient = false}};
}  // namespace
constexpr OpDef k_cross_entropy_with_gradient = checked({
    .name = "cross_entropy_with_gradient",
    .formula = "y = reduce(w[t] (logsumexp(x) - x[t])), dx = g dy/dx",
    .inputs = kWithGradientInputs,
    .outputs = kWithGradientOutputs,
    .attributes = kAttributes,
    .infer = [](Infer&) {},
    .kernels = &kernel_tables::cross_entropy,
    .cpu = {cross_entropy_in_two, nullptr},
    .plain = {cross_entropy_in_two, nullptr},
});

CT_ROOM(cross_entropy, &k_cross_entropy, &k_cross_entropy_soft)

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  const bool soft = target.defined() && is_floating(target.dtype());
  return dispatch(soft ? k_cross_entropy_soft : k_cross_entropy, {logits, target, options.weight},
                  CrossEntropyAttrs{options.reduction, options.ignore_index, options.label_smoothing});
}

}  // namespace ct
