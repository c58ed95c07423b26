#include <cotangent/ops/linear/linear_relu.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/linear/linear_internal.h>

namespace ct {
CT_KERNEL_TABLES(linear_relu)

namespace linear_impl {
namespace {

void rule(const Backward& b) { gradients(b, where(le(b.out(), 0), 0, b.grad())); }

constexpr InputDef kInputs[] = {{.name = "x", .needs = "weight y", .accumulates = true},
                                {.name = "weight", .needs = "x y", .accumulates = true, .wide_grad = true},
                                {.name = "bias",
                                 .needs = "y",
                                 .accumulates = true,
                                 .wide_grad = true,
                                 .optional = true,
                                 .contiguous = true}};

constexpr OpDef k_linear_relu =
    checked(op("linear_relu", "y = max(x w^T + b, 0)", kInputs, &kernel_tables::linear_relu, rule));

}  // namespace

Tensor linear_relu(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return dispatch(k_linear_relu, {x, weight, bias});
}

}  // namespace linear_impl

CT_ROOM(linear_relu, &linear_impl::k_linear_relu)
}  // namespace ct
