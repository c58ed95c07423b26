#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/matmul/matmul_plain.h>

// The plain kernels: every product of a stack by matmul_plain.h. Oracles alone: the engine's product runs in f64 as well.

namespace ct::plain {
namespace {

// The products of a call: matrices [m, k] and [k, n], of which a vector is one row or one column, and the leading axes,
// along which stacks are broadcast.
struct Stacks {
  Shape a, b, all;  // leading axes
  std::int64_t m = 1, k = 1, n = 1;

  Stacks(const Shape& a_shape, const Shape& b_shape) : a(a_shape), b(b_shape) {
    k = a.back();
    a.pop_back();
    if (!a.empty()) m = a.back(), a.pop_back();
    if (b.size() > 1) n = b.back(), b.pop_back();
    b.pop_back();
    all = broadcast_shapes("matmul", a, b);
  }
  // Matrix s of the stack of all products, in a tensor with `own` leading axes.
  static MutableMatrix at(const Tensor& t, const Shape& own, const Shape& all, std::int64_t s,
                          std::int64_t rows, std::int64_t cols) {
    const Strides step = broadcast_strides(own, contiguous_strides(own), all);
    std::int64_t number = 0;
    for (int i = all.size() - 1; i >= 0; --i) number += s % all[i] * step[i], s /= all[i];
    return matrix(t, number * rows * cols, rows, cols, cols, 1);
  }
  MutableMatrix left(const Tensor& t, std::int64_t s) const { return at(t, a, all, s, m, k); }
  MutableMatrix right(const Tensor& t, std::int64_t s) const { return at(t, b, all, s, k, n); }
  MutableMatrix product(const Tensor& t, std::int64_t s) const { return at(t, all, all, s, m, n); }
};

void forward(const Forward& f) {
  const Tensor &a = f.in(0), &b = f.in(1);
  const Stacks stacks(a.shape(), b.shape());
  for (std::int64_t s = 0; s < numel(stacks.all); ++s)
    matmul(read(stacks.left(a, s)), read(stacks.right(b, s)), stacks.product(f.out(), s));
}

void backward(const Backward& call) {
  const Stacks stacks(call.in_meta(0).shape, call.in_meta(1).shape);
  const Tensor& g = call.grad();
  for (int i = 0; i < 2; ++i)
    if (call.needs(i) && !call.accumulate(i)) call.grad_in(i).zero_();
  for (std::int64_t s = 0; s < numel(stacks.all); ++s) {
    const ConstMatrix gs = read(stacks.product(g, s));
    if (call.needs(0))
      add_left_gradient(gs, read(stacks.right(call.in(1), s)), stacks.left(call.grad_in(0), s));
    if (call.needs(1))
      add_right_gradient(gs, read(stacks.left(call.in(0), s)), stacks.right(call.grad_in(1), s));
  }
}

}  // namespace
}  // namespace ct::plain

CT_KERNELS(oracle, matmul, {"matmul", plain::forward, plain::backward})
