#include <cotangent/ops/sampling/multinomial_internal.h>
#include <cotangent/ops/sampling/multinomial_plain.h>

// The plain kernel: every row of a call by multinomial_plain.h.

namespace ct::plain::multinomial_calls {
namespace {

void forward(const Forward& f) {
  const Tensor &w = f.in(0), &y = f.out();
  const auto& attrs = f.attrs<multinomial_kernels::Attrs>();
  const Rows rows(w.shape(), w.dim() - 1), draws(y.shape(), y.dim() - 1);
  rows.each([&](std::int64_t r) {
    const Row row = rows.of(w, r);
    multinomial_kernels::check_weights(row.data(), row.size(), r);
    const std::int64_t drawn =
        multinomial(row, attrs.replacement, attrs.draw, static_cast<std::uint64_t>(r * attrs.count),
                    draws.positions(y, r));
    if (drawn < attrs.count) multinomial_kernels::fail_empty(r, drawn, attrs.count);
  });
}

}  // namespace
}  // namespace ct::plain::multinomial_calls

CT_KERNELS(plain, multinomial, forward_only("multinomial", plain::multinomial_calls::forward))
