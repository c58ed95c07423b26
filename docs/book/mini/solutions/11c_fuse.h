// Chapter 11c: work that is done while the numbers are in registers.

namespace mini {

/// relu(linear(x, w, b)) in one product each way: the bias and the relu before a number is stored, and its cotangent masked,
/// g [y > 0], as the gradients' products read it. Nothing of y's size is made but y.
inline Tensor linear_relu(const Tensor& x, const Tensor& w, const Tensor& b) {
  const Size out = w->rows;
  std::vector<Real> y(x->rows * out);
  product(x->rows, out, x->columns, view(*x), view(*w).t(), [&](Size n, Size o, Real s) {
    const Real v = s + b->values[o];
    y[n * out + o] = v > 0 ? v : 0;
  });
  return record(x->rows, out, std::move(y), {x, w, b}, [](const Node& node) {
    linear_back(node, [&](Size n, Size o) {
      const Size at = n * node.columns + o;
      return node.values[at] > 0 ? node.grad[at] : 0;
    });
  });
}

}  // namespace mini
