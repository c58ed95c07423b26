#include <cotangent/ops/elementwise/dropout.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/dropout_internal.h>
#include <cotangent/ops/engine/random/with_draw.h>

namespace ct {
CT_KERNEL_TABLES(dropout)
namespace {

using elementwise::dropout_impl::Attrs;

void check_probability(const char* op, double p) {
  CT_CHECK(p >= 0 && p <= 1, ValueError, op, "the probability p is ", p, "; it must lie in [0, 1]");
}

void infer(Infer& infer) {
  check_probability(infer.op.name, infer.attrs<Attrs>().p);
  infer.output(infer.in(0).shape(), infer.in(0).dtype());
}

// The same elements of the cotangent are dropped: the draw is an attribute.
void rule(const Backward& b) {
  const Attrs& attrs = b.attrs<Attrs>();
  if (b.needs(0)) b.set_grad_in(0, ct::dropout(b.grad(), attrs.p, attrs.draw));
}

constexpr InputDef kInputs[] = {{.name = "x", .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, p), CT_ATTRIBUTE(Attrs, draw)};

constexpr OpDef k_dropout = checked({
    .name = "dropout",
    .formula = "y = x / (1 - p), or 0 with probability p",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = infer,
    .kernels = &kernel_tables::dropout,
    .rule = rule,
    .flops_each = 1,
});

}  // namespace

Tensor dropout(const Tensor& x, Real p, Flag training, Generator& generator) {
  check_probability(k_dropout.name, p);
  CT_CHECK(x.defined(), Error, k_dropout.name,
           "x is undefined; create it with ct::zeros, ct::randn, ... first");
  CT_CHECK(is_floating(x.dtype()), DTypeError, k_dropout.name, "x is ", describe(x),
           "; it must be floating: convert with .to(f32)");
  if (!training || p == 0) return x;
  return with_draw(generator, [&](const GeneratorState& draw) {
    return dispatch(k_dropout, {x}, Attrs{p, draw});
  });
}

Tensor dropout(const Tensor& x, double p, const GeneratorState& draw) {
  return dispatch(k_dropout, {x}, Attrs{p, draw});
}

CT_ROOM(dropout, &k_dropout)
}  // namespace ct
