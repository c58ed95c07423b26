#include <cotangent/ops/rms_norm/rms_norm.h>

#include <cotangent/core/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/norm_internal.h>
#include <cotangent/ops/rms_norm/rms_norm_kernels.h>

namespace ct {
namespace {

template <bool kAdd>
constexpr norm::Kind kind{.centered = false, .add = kAdd};

template <bool kAdd>
constexpr OpDef define(const char* formula) {
  OpDef op = norm::base(kind<kAdd>);
  op.formula = formula;
  op.infer = [](Infer& in) { norm::infer(in, kind<kAdd>); };
  op.cpu = {rms_norm_kernels::forward_cpu<kAdd>, rms_norm_kernels::backward_cpu<kAdd>};
  op.cuda = CT_CUDA_KERNELS(rms_norm_kernels::forward_cuda<kAdd>, rms_norm_kernels::backward_cuda<kAdd>);
  op.cost = [](std::span<const TensorMeta> in, std::span<const TensorMeta> out, AttrsView) {
    return norm::cost(in, out, kind<kAdd>);
  };
  op.reference = [](std::span<const Tensor> in, AttrsView attrs) {
    return norm::reference(in, attrs, kind<kAdd>);
  };
  op.samples = [](SampleMaker& make) { return norm::samples(make, kind<kAdd>); };
  op.error_samples = [](SampleMaker& make) { return norm::error_samples(make, kind<kAdd>); };
  return op;
}

constexpr OpDef k_rms_norm = checked(define<false>("y = x / sqrt(mean(x^2) + eps) w"));
constexpr OpDef k_add_rms_norm = checked(define<true>("s = x + r; y = s / sqrt(mean(s^2) + eps) w"));

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return dispatch(k_rms_norm, {x, weight}, norm::Attrs{eps, norm::row_axes(weight)});
}

std::array<Tensor, 2> add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight,
                                   double eps) {
  return dispatch_n<2>(k_add_rms_norm, {x, residual, weight}, norm::Attrs{eps, norm::row_axes(weight)});
}

namespace rooms {
namespace {
constexpr const OpDef* rms_norm_ops[] = {&k_rms_norm, &k_add_rms_norm};
}
extern const Room rms_norm;
const Room rms_norm{"rms_norm", rms_norm_ops};
}  // namespace rooms
}  // namespace ct
