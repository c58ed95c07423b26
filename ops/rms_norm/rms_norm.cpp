#include <cotangent/ops/rms_norm/rms_norm.h>

#include <cotangent/core/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/norm_internal.h>
#include <cotangent/ops/rms_norm/rms_norm_kernels.h>

namespace ct {
namespace {

template <bool kAdd>
constexpr OpDef define(const char* formula) {
  using namespace rms_norm_kernels;
  return norms::define<false, kAdd>(formula, {forward_cpu<kAdd>, backward_cpu<kAdd>},
                                    CT_CUDA_KERNELS(forward_cuda<kAdd>, backward_cuda<kAdd>));
}

constexpr OpDef k_rms_norm = checked(define<false>("y = x / sqrt(mean(x^2) + eps) w"));
constexpr OpDef k_add_rms_norm = checked(define<true>("s = x + r; y = s / sqrt(mean(s^2) + eps) w"));

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

namespace rooms {
namespace {
constexpr const OpDef* rms_norm_ops[] = {&k_rms_norm, &k_add_rms_norm};
}
extern const Room rms_norm;
const Room rms_norm{"rms_norm", rms_norm_ops};
}  // namespace rooms
}  // namespace ct
