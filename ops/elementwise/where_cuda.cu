#include <cotangent/ops/elementwise/where_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// Selection is an elementwise formula of three inputs; nothing here but its instances.

namespace ct::elementwise::where_impl {

using namespace map;

namespace {
struct Formulas : Table<void, Row<Select, true>, Row<SelectScalar, true>, Row<PassUnless>> {};

void gradient(const Backward& b, int i, const Scalar& q) {
  masked_gradient(b, i, q,
                  [&](Tensor& out, std::span<const Tensor* const> inputs, const Parameters& parameters) {
                    run_cuda(b.op.name, gradient_kernels<PassUnless, Formulas>(), out, inputs, parameters);
                  });
}

void where_forward_cuda(const Forward& f) { forward_cuda<Select, true, true, false, Formulas>(f); }
void where_backward_cuda(const Backward& b) {
  gradient(b, 1, 0);
  gradient(b, 2, 1);
}

void where_scalar_forward_cuda(const Forward& f) {
  forward_cuda<SelectScalar, true, true, false, Formulas>(f);
}
void where_scalar_backward_cuda(const Backward& b) { gradient(b, 1, parameters_of(b.attrs_view).q); }

}  // namespace
}  // namespace ct::elementwise::where_impl

CT_KERNELS(cuda, where,
           {"where", elementwise::where_impl::where_forward_cuda,
            elementwise::where_impl::where_backward_cuda},
           {"where_scalar", elementwise::where_impl::where_scalar_forward_cuda,
            elementwise::where_impl::where_scalar_backward_cuda})
