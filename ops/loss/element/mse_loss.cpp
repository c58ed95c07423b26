#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/loss/element/mse_loss.h>
#include <cotangent/ops/loss/element/mse_loss_internal.h>
#include <cotangent/ops/rules_internal.h>

namespace ct {
CT_KERNEL_TABLES(mse_loss)
namespace {

void mse_loss_infer(Infer& in) {
  CT_CHECK(in.in(0).shape() == in.in(1).shape(), ShapeError, "mse_loss", "input is ", describe(in.in(0)),
           ", target is ", describe(in.in(1)), "; they must have the same shape: use reshape() or expand()");
  const bool each = known("mse_loss", in.attrs<MseLossAttrs>().reduction) == Reduction::none;
  in.output(each ? in.in(0).shape() : Shape{}, in.in(0).dtype());
}

void mse_loss_rule(const Backward& b) {
  const Tensor g = rules::spread(b.grad(), b.attrs<MseLossAttrs>().reduction, b.in_meta(0).shape);
  const Tensor dx = 2 * g * (b.in(0) - b.in(1));
  if (b.needs(0)) b.set_grad_in(0, dx);
  if (b.needs(1)) b.set_grad_in(1, -dx);
}

constexpr InputDef kInputs[] = {{.name = "x", .needs = "x t", .contiguous = true},
                                {.name = "t", .needs = "x t", .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(MseLossAttrs, reduction, kReductionNames)};

}  // namespace

constexpr OpDef k_mse_loss = checked({
    .name = "mse_loss",
    .formula = "y = reduce((x - t)^2)",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = mse_loss_infer,
    .kernels = &kernel_tables::mse_loss,
    .fast_f64 = true,
    .rule = mse_loss_rule,
    .autocast = AutocastPolicy::f32,
    .flops_each = 3,
});

CT_ROOM(mse_loss, &k_mse_loss)

Tensor mse_loss(const Tensor& input, const Tensor& target, const MseLossOptions& options) {
  return dispatch(k_mse_loss, {input, target}, MseLossAttrs{options.reduction});
}

}  // namespace ct
