#include <cotangent/ops/elementwise/where_internal.h>
#include <cotangent/ops/engine/map/map_cpu.h>

// Selection is an elementwise formula of three inputs; nothing here but its instances.

namespace ct::elementwise::where_impl {

using namespace map;

namespace {
void gradient(const Backward& b, int i, const Scalar& q) {
  masked_gradient(b, i, q,
                  [](Tensor& out, std::span<const Tensor* const> inputs, const Parameters& parameters) {
                    run_cpu(tiles_of<PassUnless>, out, inputs, parameters);
                  });
}

void where_forward_cpu(const Forward& f) { forward_cpu<Select, true, true>(f); }
void where_backward_cpu(const Backward& b) {
  gradient(b, 1, 0);
  gradient(b, 2, 1);
}

void where_scalar_forward_cpu(const Forward& f) { forward_cpu<SelectScalar, true, true>(f); }
void where_scalar_backward_cpu(const Backward& b) { gradient(b, 1, parameters_of(b.attrs_view).q); }

constexpr Parameters kSelectsOnZero{0, 0}, kSelectsOnOne{0, 1};
constexpr GradientRecord pass_unless(const Parameters* numbers) {
  return {formula_record<PassUnless, tiles_of<PassUnless>>(), "0g", false, numbers};
}
constexpr MapRecord kWhere{formula_record<Select, tiles_of<Select, true, true>>(),
                           3,
                           {{}, pass_unless(&kSelectsOnZero), pass_unless(&kSelectsOnOne)}};
constexpr MapRecord kWhereScalar{
    formula_record<SelectScalar, tiles_of<SelectScalar, true, true>>(), 2, {{}, pass_unless(nullptr)}};

}  // namespace
}  // namespace ct::elementwise::where_impl

CT_KERNELS(cpu, where,
           {"where", elementwise::where_impl::where_forward_cpu, elementwise::where_impl::where_backward_cpu},
           {"where_scalar", elementwise::where_impl::where_scalar_forward_cpu,
            elementwise::where_impl::where_scalar_backward_cpu},
           forward_only("where formulas", hand_out<elementwise::where_impl::kWhere>),
           forward_only("where_scalar formulas", hand_out<elementwise::where_impl::kWhereScalar>))
