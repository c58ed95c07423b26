#include <cotangent/ops/rules_internal.h>

#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/indexing/indexing.h>
#include <cotangent/ops/reduce/reduce.h>

namespace ct::rules {

Tensor unbroadcast(const Tensor& grad, const Shape& shape) {
  if (grad.shape() == shape) return grad;
  const int lead = grad.dim() - shape.size();
  Dims axes;
  for (int i = 0; i < grad.dim(); ++i)
    if (i < lead || shape[i - lead] != grad.shape()[i]) axes.push_back(i);
  return (axes.empty() ? grad : sum(grad, axes, true)).reshape(shape);
}

Tensor padded(const Tensor& x, std::int64_t axis, std::int64_t before, std::int64_t after) {
  if (before == 0 && after == 0) return x;
  const int at = wrap_axis("padded", axis, x.dim());
  const auto zeros_of = [&](std::int64_t length) {
    Shape shape = x.shape();
    shape[at] = length;
    return zeros(shape, {.dtype = x.dtype(), .device = x.device()});
  };
  const Tensor parts[] = {zeros_of(before), x, zeros_of(after)};
  return concat(parts, at);
}

Tensor one_hot(const Tensor& index, std::int64_t axis, std::int64_t count, DType dtype) {
  const Tensor at = index.unsqueeze(axis);
  Shape shape = Shape::filled(at.dim(), 1);
  shape[wrap_axis("one_hot", axis, at.dim())] = count;
  const Tensor places = arange(count, {.dtype = index.dtype(), .device = index.device()}).view(shape);
  return eq(at, places).to(dtype);
}

void found_at(const Backward& b, std::int64_t axis) {
  if (!b.needs(0)) return;
  const Tensor none = zeros(b.in_meta(0).shape, {.dtype = b.grad().dtype(), .device = b.grad().device()});
  b.set_grad_in(0, scatter_add(none, axis, b.out(1), b.grad()));
}

Tensor spread(const Tensor& g, Reduction reduction, const Shape& shape, const Tensor& divisor) {
  if (reduction == Reduction::none) return g;
  Tensor each = g;
  if (reduction == Reduction::mean)
    each = divisor.defined() ? g / divisor.to(g.dtype()) : g / static_cast<double>(numel(shape));
  return each.expand(shape);
}

Tensor row_mean(const Tensor& x, std::int64_t axes) {
  Dims last;
  for (std::int64_t i = axes; i > 0; --i) last.push_back(-i);
  return mean(x, last, true);
}

void check_room_for_axis(const char* op, const char* name, const Tensor& t) {
  CT_CHECK(t.dim() < kMaxRank, ShapeError, op, name, " is ", describe(t),
           "; the result has one axis more, and at most ", kMaxRank, " are supported");
}

}  // namespace ct::rules
