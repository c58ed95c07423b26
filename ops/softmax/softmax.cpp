#include <cotangent/ops/softmax/softmax.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/softmax/softmax_internal.h>

namespace ct {
CT_KERNEL_TABLES(softmax)
namespace {

using softmax_impl::Attrs;

void infer(Infer& infer) {
  const Tensor& x = infer.in(0);
  wrap_axis(infer.op.name, infer.attrs<Attrs>().axis, x.dim());
  infer.output(x.shape(), x.dtype());
}

template <bool logarithm>
void rule(const Backward& b) {
  if (!b.needs(0)) return;
  const Dims axis{b.attrs<Attrs>().axis};
  const Tensor &g = b.grad(), &y = b.out();
  if (b.in_meta(0).shape.empty()) return b.set_grad_in(0, g.mul(0));  // one element: y does not change
  if constexpr (logarithm) {
    b.set_grad_in(0, g.sub(y.exp().mul(g.sum(axis, true))));  // g - e^y sum(g)
  } else {
    b.set_grad_in(0, y.mul(g.sub(g.mul(y).sum(axis, true))));  // y (g - sum(g y))
  }
}

constexpr InputDef kInputs[] = {{.name = "x", .needs = "y", .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, axis)};

template <bool logarithm>
consteval OpDef define(const char* name, const char* formula) {
  return checked({.name = name,
                  .formula = formula,
                  .inputs = kInputs,
                  .outputs = kOutputs,
                  .attributes = kAttributes,
                  .infer = infer,
                  .kernels = &kernel_tables::softmax,
                  .rule = rule<logarithm>,
                  .autocast = AutocastPolicy::f32,
                  .flops_each = 5});
}

constexpr OpDef k_softmax = define<false>("softmax", "y = exp(x) / sum(exp(x))");
constexpr OpDef k_log_softmax = define<true>("log_softmax", "y = x - log(sum(exp(x)))");

}  // namespace

Tensor softmax(const Tensor& x, Integer axis) { return dispatch(k_softmax, {x}, Attrs{axis}); }
Tensor log_softmax(const Tensor& x, Integer axis) { return dispatch(k_log_softmax, {x}, Attrs{axis}); }
CT_MEMBER(Tensor, softmax, (Integer axis) const, axis)
CT_MEMBER(Tensor, log_softmax, (Integer axis) const, axis)

CT_ROOM(softmax, &k_softmax, &k_log_softmax)
}  // namespace ct
