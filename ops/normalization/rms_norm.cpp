#include <cotangent/ops/normalization/rms_norm.h>

#include <cotangent/core/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/normalization/normalization_internal.h>

namespace ct {
CT_KERNEL_TABLES(rms_norm)
namespace {

constexpr OpDef k_rms_norm =
    checked(norms::define<false, false>("y = x / sqrt(mean(x^2) + eps) w", &kernel_tables::rms_norm));
constexpr OpDef k_add_rms_norm = checked(
    norms::define<false, true>("s = x + r; y = s / sqrt(mean(s^2) + eps) w", &kernel_tables::rms_norm));

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return dispatch(k_rms_norm, {x, weight}, norms::Attrs{eps, norms::row_axes(weight)});
}

std::array<Tensor, 2> add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, double eps,
                                   NormUse use) {
  const norms::Addends in = norms::addends(k_add_rms_norm.name, x, residual, use);
  return dispatch_n<2>(k_add_rms_norm, {in.x, in.residual, weight},
                       norms::Attrs{eps, norms::row_axes(weight), in.y});
}

CT_ROOM(rms_norm, &k_rms_norm, &k_add_rms_norm)
}  // namespace ct
