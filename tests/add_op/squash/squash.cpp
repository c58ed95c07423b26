#include <cotangent/ops/squash/squash.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>

namespace ct {
CT_KERNEL_TABLES(squash)
namespace {

void infer(Infer& c) { c.output(c.in(0).shape(), c.in(0).dtype()); }

// The gradient as ops on the tape, for gradients of gradients: dx = g / (1 + |x|)^2.
void rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, b.grad() / square(1 + abs(b.in(0))));
}

constexpr InputDef kInputs[] = {{.name = "x", .needs = "x", .contiguous = true}};  // dx needs x
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};

constexpr OpDef k_squash = checked({
    .name = "squash",
    .formula = "y = x / (1 + |x|)",
    .inputs = kInputs,
    .outputs = kOutputs,
    .infer = infer,
    .kernels = &kernel_tables::squash,
    .rule = rule,
    .flops_each = 1,
});

}  // namespace

Tensor squash(const Tensor& x) { return dispatch(k_squash, {x}); }

CT_ROOM(squash, &k_squash)
}  // namespace ct
