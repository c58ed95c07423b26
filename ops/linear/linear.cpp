#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/engine/fold/sum_to.h>
#include <cotangent/ops/linear/linear.h>
#include <cotangent/ops/linear/linear_internal.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/rules_internal.h>

namespace ct {
CT_KERNEL_TABLES(linear)

void linear_impl::infer(Infer& in) {
  const Tensor &x = in.in(0), &w = in.in(1), &bias = in.in(2);
  const char* const op = in.op.name;
  CT_CHECK(w.dim() == 2, ShapeError, op, "weight is ", describe(w), "; it must be [out, in]");
  CT_CHECK(x.dim() > 0 && x.size(-1) == w.size(1), ShapeError, op, "x is ", describe(x), ", weight is ",
           describe(w), "; x.size(-1) must equal weight.size(1)");
  CT_CHECK(!bias.defined() || (bias.dim() == 1 && bias.size(0) == w.size(0)), ShapeError, op, "bias is ",
           describe(bias), ", weight is ", describe(w), "; bias must be [weight.size(0)]");
  Shape out = x.shape();
  out.back() = w.size(0);
  in.output(out, x.dtype());
}

Cost linear_impl::cost(std::span<const TensorMeta> in, std::span<const TensorMeta> out, AttrsView) {
  return {.flops = 2.0 * static_cast<double>(numel(out[0].shape)) * static_cast<double>(in[0].shape.back())};
}

// dx = g w, dw = g^T x, db = sum_n g[n], with all leading axes taken as rows n.
void linear_backward(const Backward& b, const gemm::Backend& backend) {
  using gemm::Missing;
  using gemm::Stack;
  const Missing missing = linear_rows(b.in_meta(0).shape.size());
  Tensor g_holder, plain_g;
  Stack g(b.grad(), missing);
  gemm::fold_rows(g, g_holder);
  if (!backend.any_strides) gemm::make_plain(g, plain_g);  // once, not in each product
  if (b.needs(0)) {
    Stack dx(b.grad_in(0), missing);
    dx.fold();
    gemm::multiply(g, Stack(b.in(1), Missing::none), dx, b.accumulate(0), backend);
  }
  if (b.needs(1)) {
    Tensor x_holder;
    Stack x(b.in(0), missing);
    gemm::fold_rows(x, x_holder);
    gemm::multiply(g.t(), x, Stack(b.grad_in(1), Missing::none), b.accumulate(1), backend);
  }
  if (b.needs(2)) sum_to_into(b.grad_in(2), b.grad(), b.accumulate(2));
}

// The same as products on the tape, with all leading axes taken as rows.
void linear_impl::gradients(const Backward& b, const Tensor& g) {
  const std::int64_t outs = b.in_meta(1).shape[0], ins = b.in_meta(1).shape[1];
  const std::int64_t rows = numel(b.in_meta(0).shape) / std::max<std::int64_t>(ins, 1);
  if (b.needs(0)) b.set_grad_in(0, matmul(g, b.in(1)));
  if (b.needs(1)) {
    const std::int64_t n = ins > 0 ? rows : g.numel() / std::max<std::int64_t>(outs, 1);
    b.set_grad_in(1, matmul(g.reshape({n, outs}).t(), b.in(0).reshape({n, ins})));
  }
  if (b.needs(2)) b.set_grad_in(2, rules::unbroadcast(g, b.in_meta(2).shape));
}

namespace {

void linear_rule(const Backward& b) { linear_impl::gradients(b, b.grad()); }

constexpr InputDef kInputs[] = {
    {.name = "x", .needs = "weight", .accumulates = true},
    {.name = "weight", .needs = "x", .accumulates = true, .wide_grad = true},
    {.name = "bias", .accumulates = true, .wide_grad = true, .optional = true, .contiguous = true}};

constexpr OpDef k_linear =
    checked(linear_impl::op("linear", "y = x w^T + b", kInputs, &kernel_tables::linear, linear_rule));

}  // namespace

CT_ROOM(linear, &k_linear)

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return dispatch(k_linear, {x, weight, bias});
}

}  // namespace ct
