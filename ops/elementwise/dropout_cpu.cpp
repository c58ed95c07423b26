#include <cotangent/ops/elementwise/dropout_internal.h>
#include <cotangent/ops/engine/map/map_cpu.h>

// Dropout is an elementwise formula that draws, the same one in both directions.

namespace ct::elementwise::dropout_impl {
namespace {

using namespace map;

void drop(const Tensor& x, const Tensor& y, const Attrs& attrs) {
  apply(x, y, attrs, [](const auto&... call) { run_cpu(tiles_of<Drop>, call...); });
}

void forward_cpu(const Forward& f) { drop(f.in(0), f.out(), f.attrs<Attrs>()); }
void backward_cpu(const Backward& b) {
  if (b.needs(0)) drop(b.grad(), b.grad_in(0), b.attrs<Attrs>());
}

void read_call(AttrsView attrs, std::int64_t, Parameters& numbers, Draw& draw) {
  const Attrs& a = *static_cast<const Attrs*>(attrs.data);
  numbers = numbers_of(a), draw = draw_of(a);
}
constexpr FormulaRecord kFormula = formula_record<Drop, tiles_of<Drop>>();
constexpr MapRecord kDropout{kFormula, 1, {{kFormula, "g"}}, read_call};

}  // namespace
}  // namespace ct::elementwise::dropout_impl

CT_KERNELS(cpu, dropout,
           {"dropout", elementwise::dropout_impl::forward_cpu, elementwise::dropout_impl::backward_cpu},
           forward_only("dropout formulas", hand_out<elementwise::dropout_impl::kDropout>))
