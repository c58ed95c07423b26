#include <cotangent/ops/sorting/topk_internal.h>
#include <cotangent/ops/sorting/topk_plain.h>

// The plain kernels: every row of a call by topk_plain.h.

namespace ct::plain {
namespace {

// The rows of `all`, of which `chosen` has the first k elements each.
struct Choice {
  Rows all, chosen;

  Choice(const Shape& all, const Shape& chosen, std::int64_t axis)
      : all(all, wrap_axis("topk", axis, all.size())), chosen(chosen, wrap_axis("topk", axis, all.size())) {}
};

void forward(const Forward& f) {
  const Choice rows(f.in(0).shape(), f.out().shape(), f.attrs<topk_kernels::Attrs>().axis);
  rows.chosen.each([&](std::int64_t r) {
    topk(rows.all.of(f.in(0), r), rows.chosen.in(f.out(), r), rows.chosen.positions(f.out(1), r));
  });
}

void backward(const Backward& b) {
  if (!b.needs(0)) return;
  if (b.grad().numel() == 0) {  // k = 0
    b.grad_in(0).zero_();
    return;
  }
  const Choice rows(b.in_meta(0).shape, b.grad().shape(), b.attrs<topk_kernels::Attrs>().axis);
  const Tensor& dx = b.grad_in(0);  // before the threads: the first to ask allocates it
  rows.all.each([&](std::int64_t r) {
    topk_gradient(rows.chosen.of(b.grad(), r), rows.chosen.positions(b.out(1), r), rows.all.in(dx, r));
  });
}

}  // namespace
}  // namespace ct::plain

CT_KERNELS(plain, topk, {"topk", plain::forward, plain::backward})
