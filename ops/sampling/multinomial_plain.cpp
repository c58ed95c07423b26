#include <cotangent/ops/sampling/multinomial_internal.h>
#include <cotangent/ops/sampling/multinomial_plain.h>

// The plain kernel: every row of a call by multinomial_plain.h.

namespace ct::sampling::weighted {
namespace {

using namespace plain;

void forward_plain(const Forward& f) {
  const Tensor &w = f.in(0), &y = f.out();
  const auto& attrs = f.attrs<Attrs>();
  const GeneratorState draw = attrs.draw.now();
  const Rows rows(w.shape(), w.dim() - 1), draws(y.shape(), y.dim() - 1);
  rows.each([&](std::int64_t r) {
    const Row row = rows.of(w, r);
    check_weights(row.data(), row.size(), r);
    const std::int64_t drawn = multinomial(
        row, attrs.replacement, draw, static_cast<std::uint64_t>(r * attrs.count), draws.positions(y, r));
    if (drawn < attrs.count) fail_empty(r, drawn, attrs.count);
  });
}

}  // namespace
}  // namespace ct::sampling::weighted

CT_KERNELS(plain, multinomial, forward_only("multinomial", sampling::weighted::forward_plain))
