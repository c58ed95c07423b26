#include <cotangent/ops/layer_norm/layer_norm.h>

#include <cotangent/core/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/layer_norm/layer_norm_kernels.h>
#include <cotangent/ops/norm_internal.h>

namespace ct {
namespace {

template <bool kAdd>
constexpr norm::Kind kind{.centered = true, .add = kAdd};

template <bool kAdd>
constexpr OpDef define(const char* formula) {
  OpDef op = norm::base(kind<kAdd>);
  op.formula = formula;
  op.infer = [](Infer& in) { norm::infer(in, kind<kAdd>); };
  op.cpu = {layer_norm_kernels::forward_cpu<kAdd>, layer_norm_kernels::backward_cpu<kAdd>};
  op.cuda = CT_CUDA_KERNELS(layer_norm_kernels::forward_cuda<kAdd>, layer_norm_kernels::backward_cuda<kAdd>);
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

constexpr OpDef k_layer_norm = checked(define<false>("y = (x - mean(x)) / sqrt(var(x) + eps) w + b"));
constexpr OpDef k_add_layer_norm =
    checked(define<true>("s = x + r; y = (s - mean(s)) / sqrt(var(s) + eps) w + b"));

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return dispatch(k_layer_norm, {x, weight, bias}, norm::Attrs{eps, norm::row_axes(weight, bias)});
}

std::array<Tensor, 2> add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight,
                                     const Tensor& bias, double eps) {
  return dispatch_n<2>(k_add_layer_norm, {x, residual, weight, bias},
                       norm::Attrs{eps, norm::row_axes(weight, bias)});
}

namespace rooms {
namespace {
constexpr const OpDef* layer_norm_ops[] = {&k_layer_norm, &k_add_layer_norm};
}
extern const Room layer_norm;
const Room layer_norm{"layer_norm", layer_norm_ops};
}  // namespace rooms
}  // namespace ct
