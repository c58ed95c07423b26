#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/loss/classes/cross_entropy_internal.h>
#include <cotangent/ops/loss/classes/nll_loss.h>
#include <cotangent/ops/rules_internal.h>

namespace ct {
CT_KERNEL_TABLES(cross_entropy)
namespace {

void nll_loss_infer(Infer& in) {
  const Tensor& x = in.in(0);
  loss::check_scores("nll_loss", "log_probs", x, in.in(2));
  loss::check_label_tensor("nll_loss", "log_probs", x, in.in(1));
  const Reduction reduction = known("nll_loss", in.attrs<NllLossAttrs>().reduction);
  in.output(reduction == Reduction::none ? in.in(1).shape() : Shape{}, x.dtype());
  if (reduction == Reduction::mean) in.output({}, accumulate_type(x.dtype()));
}

Cost nll_loss_cost(std::span<const TensorMeta> in, std::span<const TensorMeta> out, AttrsView) {
  const auto rows = static_cast<double>(numel(in[1].shape));
  return {2 * rows,
          rows * static_cast<double>(size_of(in[0].dtype)) + bytes_of(in.subspan(1)) + bytes_of(out)};
}

// dx = -g w[t] in class t, 0 elsewhere.
void nll_loss_rule(const Backward& b) {
  if (!b.needs(0)) return;
  const auto& attrs = b.attrs<NllLossAttrs>();
  const Tensor targets = loss::label_targets(b.in(1), b.saved_inputs[2], b.in_meta(0), attrs.ignore_index, 0);
  const bool mean = attrs.reduction == Reduction::mean;
  const Tensor g = loss::label_cotangents(b.grad(), attrs.reduction, b.in(1), attrs.ignore_index,
                                          mean ? b.out(1) : Tensor{});
  b.set_grad_in(0, -targets * g.unsqueeze(loss::class_axis(b.in_meta(0).shape)));
}

constexpr InputDef kInputs[] = {{.name = "x", .needs = "t weight weights", .contiguous = true},
                                {.name = "t", .gradient = false, .any_dtype = true, .contiguous = true},
                                {.name = "weight", .gradient = false, .optional = true, .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}, {.name = "weights", .gradient = false}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(NllLossAttrs, reduction, kReductionNames),
                                   CT_ATTRIBUTE(NllLossAttrs, ignore_index)};

}  // namespace

constexpr OpDef k_nll_loss = checked({
    .name = "nll_loss",
    .formula = "y = reduce(-w[t] x[t])",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = nll_loss_infer,
    .kernels = &kernel_tables::cross_entropy,
    .rule = nll_loss_rule,
    .autocast = AutocastPolicy::f32,
    .cost = nll_loss_cost,
});

CT_ROOM(nll_loss, &k_nll_loss)

Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const NllLossOptions& options) {
  return dispatch(k_nll_loss, {log_probs, target, options.weight},
                  NllLossAttrs{options.reduction, options.ignore_index});
}

}  // namespace ct
