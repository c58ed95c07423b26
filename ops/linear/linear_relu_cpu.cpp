#include <cotangent/ops/engine/map/map_cpu.h>
#include <cotangent/ops/linear/linear_cpu.h>
#include <cotangent/ops/linear/linear_relu_internal.h>

namespace ct::linear_impl {
namespace {

void relu_forward_cpu(const Forward& f) {
  forward_cpu(f);
  const Tensor* const y[] = {&f.out()};
  map::run_cpu(map::tiles_of<Rectified>, f.out(), y, {});
}
void relu_backward_cpu(const Backward& b) {
  const auto pass = [](Tensor& out, std::span<const Tensor* const> inputs) {
    map::run_cpu(map::tiles_of<Passed>, out, inputs, {});
  };
  through_relu(b, pass, backward_cpu);
}

}  // namespace
}  // namespace ct::linear_impl

CT_KERNELS(cpu, linear_relu,
           {"linear_relu", ct::linear_impl::relu_forward_cpu, ct::linear_impl::relu_backward_cpu})
