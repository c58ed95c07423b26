#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/linear/linear_plain.h>

// The plain kernels: linear_plain.h with all leading axes taken as rows. Oracles alone: the engine's product runs in f64
// as well.

namespace ct::plain {
namespace {

MutableMatrix rows(const Tensor& t, std::int64_t count, std::int64_t size) {
  return matrix(t, 0, count, size, size, 1);
}

void forward(const Forward& f) {
  const Tensor &x = f.in(0), &w = f.in(1);
  const std::int64_t outs = w.size(0), ins = w.size(1), n = outs == 0 ? 0 : f.out().numel() / outs;
  const ConstMatrix xs = read(rows(x, n, ins)), ws = read(rows(w, outs, ins));
  if (!f.has(2)) return linear(xs, ws, rows(f.out(), n, outs));
  linear(xs, ws, read(rows(f.in(2), 1, outs)), rows(f.out(), n, outs));
}

// dx = value, or dx += value.
void give(const Backward& b, int i, const Matrix& value) {
  MutableMatrix dx = rows(b.grad_in(i), value.rows(), value.cols());
  if (b.accumulate(i)) {
    dx += value;
  } else {
    dx = value;
  }
}

void gradients(const Backward& b, const Tensor& g) {
  const std::int64_t outs = b.in_meta(1).shape[0], ins = b.in_meta(1).shape[1];
  std::int64_t n = 1;
  for (int i = 0; i + 1 < g.dim(); ++i) n *= g.size(i);
  const ConstMatrix gs = read(rows(g, n, outs));
  if (b.needs(0)) give(b, 0, input_gradient(gs, read(rows(b.in(1), outs, ins))));
  if (b.needs(1)) give(b, 1, weight_gradient(gs, read(rows(b.in(0), n, ins))));
  if (b.needs(2)) give(b, 2, bias_gradient(gs));
}

void backward(const Backward& b) { gradients(b, b.grad()); }

void relu_forward(const Forward& f) {
  forward(f);
  double* const y = f.out().data<double>();
  for (std::int64_t i = 0; i < f.out().numel(); ++i) y[i] = rectified(y[i]);
}
void relu_backward(const Backward& b) {
  const Tensor g = b.grad().clone();
  for (std::int64_t i = 0; i < g.numel(); ++i)
    g.data<double>()[i] = passed(g.data<double>()[i], b.out().data<double>()[i]);
  gradients(b, g);
}

}  // namespace
}  // namespace ct::plain

CT_KERNELS(oracle, linear, {"linear", plain::forward, plain::backward},
           {"linear_relu", plain::relu_forward, plain::relu_backward})
