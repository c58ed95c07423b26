#include <cotangent/ops/elementwise/dropout_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// Dropout is an elementwise formula that draws, the same one in both directions.

namespace ct::elementwise::dropout_impl {
namespace {

using namespace map;

void drop(const Tensor& x, const Tensor& y, const Attrs& attrs) {
  apply(x, y, attrs,
        [](const auto&... call) { run_cuda("dropout", value_kernels<Drop, true, false>(), call...); });
}

void forward_cuda(const Forward& f) { drop(f.in(0), f.out(), f.attrs<Attrs>()); }
void backward_cuda(const Backward& b) {
  if (b.needs(0)) drop(b.grad(), b.grad_in(0), b.attrs<Attrs>());
}

}  // namespace
}  // namespace ct::elementwise::dropout_impl

CT_KERNELS(cuda, dropout,
           {"dropout", elementwise::dropout_impl::forward_cuda, elementwise::dropout_impl::backward_cuda})
