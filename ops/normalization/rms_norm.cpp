#include <cotangent/ops/normalization/rms_norm.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/normalization/normalization_internal.h>

namespace ct {
CT_KERNEL_TABLES(rms_norm)
namespace {

// Values that gradients need: the rows that were normalized (x, or with a residual their sum), the statistics, and
// for the rows the weight.
constexpr InputDef kInputs[] = {
    {.name = "x", .needs = "x weight rstd", .accumulates = true, .contiguous = true},
    {.name = "weight", .needs = "x rstd", .accumulates = true, .optional = true, .contiguous = true}};
constexpr InputDef kAddInputs[] = {
    {.name = "x", .needs = "sum weight rstd", .contiguous = true},
    {.name = "residual", .needs = "sum weight rstd", .contiguous = true, .low = true},
    {.name = "weight", .needs = "sum rstd", .accumulates = true, .optional = true, .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}, {.name = "rstd", .gradient = false}};
constexpr OutputDef kAddOutputs[] = {{.name = "y", .contiguous = true},
                                     {.name = "sum", .contiguous = true},
                                     {.name = "rstd", .gradient = false}};

constexpr OpDef k_rms_norm = normalization::define<false, false>("y = x / sqrt(mean(x^2) + eps) w", kInputs,
                                                                 kOutputs, &kernel_tables::rms_norm);
constexpr OpDef k_add_rms_norm = normalization::define<false, true>(
    "s = x + r; y = s / sqrt(mean(s^2) + eps) w", kAddInputs, kAddOutputs, &kernel_tables::rms_norm);

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return dispatch(k_rms_norm, {x, weight}, normalization::Attrs{eps, normalization::row_axes(weight)});
}

std::array<Tensor, 2> add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, double eps,
                                   NormUse use) {
  const normalization::Addends in = normalization::addends(k_add_rms_norm.name, x, residual, use);
  return dispatch_n<2>(k_add_rms_norm, {in.x, in.residual, weight},
                       normalization::Attrs{eps, normalization::row_axes(weight), in.y});
}

CT_ROOM(rms_norm, &k_rms_norm, &k_add_rms_norm)
}  // namespace ct
