#include <cotangent/ops/normalization/layer_norm.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/normalization/normalization_internal.h>

namespace ct {
CT_KERNEL_TABLES(layer_norm)
namespace {

// Values that gradients need: the rows that were normalized (x, or with a residual their sum), the statistics, and
// for the rows the weight.
constexpr InputDef kInputs[] = {
    {.name = "x", .needs = "x weight mean rstd", .accumulates = true, .contiguous = true},
    {.name = "weight", .needs = "x mean rstd", .accumulates = true, .optional = true, .contiguous = true},
    {.name = "bias", .accumulates = true, .optional = true, .contiguous = true}};
constexpr InputDef kAddInputs[] = {
    {.name = "x", .needs = "sum weight mean rstd", .contiguous = true},
    {.name = "residual", .needs = "sum weight mean rstd", .contiguous = true, .low = true},
    {.name = "weight", .needs = "sum mean rstd", .accumulates = true, .optional = true, .contiguous = true},
    {.name = "bias", .accumulates = true, .optional = true, .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true},
                                  {.name = "mean", .gradient = false},
                                  {.name = "rstd", .gradient = false}};
constexpr OutputDef kAddOutputs[] = {{.name = "y", .contiguous = true},
                                     {.name = "sum", .contiguous = true},
                                     {.name = "mean", .gradient = false},
                                     {.name = "rstd", .gradient = false}};

constexpr OpDef k_layer_norm = normalization::define<true, false>(
    "y = (x - mean(x)) / sqrt(var(x) + eps) w + b", kInputs, kOutputs, &kernel_tables::layer_norm);
constexpr OpDef k_add_layer_norm =
    normalization::define<true, true>("s = x + r; y = (s - mean(s)) / sqrt(var(s) + eps) w + b", kAddInputs,
                                      kAddOutputs, &kernel_tables::layer_norm);

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return dispatch(k_layer_norm, {x, weight, bias},
                  normalization::Attrs{eps, normalization::row_axes(weight, bias)});
}

std::array<Tensor, 2> add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight,
                                     const Tensor& bias, double eps, NormUse use) {
  const normalization::Addends in = normalization::addends(k_add_layer_norm.name, x, residual, use);
  return dispatch_n<2>(k_add_layer_norm, {in.x, in.residual, weight, bias},
                       normalization::Attrs{eps, normalization::row_axes(weight, bias), in.y});
}

CT_ROOM(layer_norm, &k_layer_norm, &k_add_layer_norm)
}  // namespace ct
