#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/loss/element/bce_with_logits.h>
#include <cotangent/ops/loss/element/bce_with_logits_internal.h>
#include <cotangent/ops/rules_internal.h>

namespace ct {
CT_KERNEL_TABLES(bce_with_logits)

CyclicWeight::CyclicWeight(const Tensor& weight, const Shape& input) {
  if (!weight.defined()) return;
  const NoGrad guard;
  // The shape without its leading axes of size 1 must be the end of the input's.
  const Shape& shape = weight.shape();
  int first = 0;
  while (first < shape.size() && shape[first] == 1) ++first;
  bool tail = true;
  for (int i = first; i < shape.size(); ++i)
    tail = tail && shape[i] == input[input.size() - shape.size() + i];
  values = tail ? weight.contiguous() : weight.expand(input).contiguous();
  period = values.numel() > 0 ? values.numel() : 1;
}

namespace {

void bce_with_logits_infer(Infer& in) {
  const Tensor &x = in.in(0), &target = in.in(1);
  CT_CHECK(x.shape() == target.shape(), ShapeError, "bce_with_logits", "input is ", describe(x),
           ", target is ", describe(target), "; they must have the same shape: use reshape() or expand()");
  for (int i = 2; i < in.input_count(); ++i) {
    const Tensor& w = in.in(i);
    if (!w.defined()) continue;
    bool fits = w.dim() <= x.dim();
    for (int axis = 0; fits && axis < w.dim(); ++axis) {
      const std::int64_t size = w.shape()[axis];
      fits = size == 1 || size == x.shape()[x.dim() - w.dim() + axis];
    }
    CT_CHECK(fits, ShapeError, "bce_with_logits", i == 2 ? "weight" : "pos_weight", " is ", describe(w),
             ", input is ", describe(x), "; it must broadcast to the input's shape");
  }
  const bool each = known("bce_with_logits", in.attrs<BceWithLogitsAttrs>().reduction) == Reduction::none;
  in.output(each ? x.shape() : Shape{}, x.dtype());
}

// dx = g w ((1 - t) s(x) - p t s(-x)) with the sigmoid s, dt = g w (p softplus(-x) - softplus(x)).
void bce_with_logits_rule(const Backward& b) {
  const Tensor &x = b.in(0), &t = b.in(1);
  const auto weighted = [&](int i, const Tensor& v) {
    return b.saved_inputs[static_cast<std::size_t>(i)].defined() ? b.in(i)*v : v;
  };
  const Tensor g =
      weighted(2, rules::spread(b.grad(), b.attrs<BceWithLogitsAttrs>().reduction, b.in_meta(0).shape));
  if (b.needs(0)) b.set_grad_in(0, g * ((1 - t) * sigmoid(x) - weighted(3, t * sigmoid(-x))));
  if (b.needs(1)) b.set_grad_in(1, g * (weighted(3, softplus(-x)) - softplus(x)));
}

constexpr const char* kAll = "x t weight pos_weight";
constexpr InputDef kInputs[] = {{.name = "x", .needs = kAll, .contiguous = true},
                                {.name = "t", .needs = kAll, .contiguous = true},
                                {.name = "weight", .gradient = false, .optional = true},
                                {.name = "pos_weight", .gradient = false, .optional = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(BceWithLogitsAttrs, reduction, kReductionNames)};

}  // namespace

constexpr OpDef k_bce_with_logits = checked({
    .name = "bce_with_logits",
    .formula = "y = reduce(w (p t softplus(-x) + (1 - t) softplus(x)))",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = bce_with_logits_infer,
    .kernels = &kernel_tables::bce_with_logits,
    .fast_f64 = true,
    .rule = bce_with_logits_rule,
    .autocast = AutocastPolicy::f32,
    .flops_each = 8,
});

CT_ROOM(bce_with_logits, &k_bce_with_logits)

Tensor bce_with_logits(const Tensor& input, const Tensor& target, const BceWithLogitsOptions& options) {
  return dispatch(k_bce_with_logits, {input, target, options.weight, options.pos_weight},
                  BceWithLogitsAttrs{options.reduction});
}

}  // namespace ct
