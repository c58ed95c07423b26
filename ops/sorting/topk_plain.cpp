#include <cotangent/ops/sorting/topk_internal.h>
#include <cotangent/ops/sorting/topk_plain.h>

// The plain kernels: every row of a call by topk_plain.h.

namespace ct::sorting {
namespace {

using namespace plain;

// The rows of `all`, of which `chosen` has the first k elements each.
struct Choice {
  plain::Rows all, chosen;

  Choice(const OpDef& op, const Attrs& attrs, const Shape& all, const Shape& chosen)
      : all(all, wrap_axis(op.name, attrs.axis, all.size())),
        chosen(chosen, wrap_axis(op.name, attrs.axis, all.size())) {}
};

void forward_plain(const Forward& f) {
  const auto& attrs = f.attrs<Attrs>();
  const Choice rows(f.op, attrs, f.in(0).shape(), f.out().shape());
  rows.chosen.each([&](std::int64_t r) {
    topk(rows.all.of(f.in(0), r), attrs.descending, rows.chosen.in(f.out(), r),
         rows.chosen.positions(f.out(1), r));
  });
}

void backward_plain(const Backward& b) {
  if (!b.needs(0)) return;
  if (b.grad().numel() == 0) {  // k = 0
    b.grad_in(0).zero_();
    return;
  }
  const Choice rows(b.op, b.attrs<Attrs>(), b.in_meta(0).shape, b.grad().shape());
  const Tensor& dx = b.grad_in(0);  // before the threads: the first to ask allocates it
  rows.all.each([&](std::int64_t r) {
    topk_gradient(rows.chosen.of(b.grad(), r), rows.chosen.positions(b.out(1), r), rows.all.in(dx, r));
  });
}

}  // namespace
}  // namespace ct::sorting

CT_KERNELS(plain, topk, {"topk", sorting::forward_plain, sorting::backward_plain},
           {"sort", sorting::forward_plain, sorting::backward_plain})
