// Chapter 6: a layer and a loss. The products are those of chapter 8.

namespace mini {

/// The gradients of y = x w^T + b, from g(n, o), the cotangent of y; `node` has the inputs x [N, in], w [out, in], b [1, out].
template <class Cotangent>
void linear_back(const Node& node, const Cotangent& g) {
  Node &x = *node.inputs[0], &w = *node.inputs[1], &b = *node.inputs[2];
  const Size rows = x.rows, in = w.columns, out = w.rows;
  const auto transposed = [&](Size o, Size n) { return g(n, o); };
  if (x.wants_grad)
    product(rows, in, out, g, view(w),
            [&, d = x.into().data()](Size n, Size i, Real s) { d[n * in + i] += s; });
  if (w.wants_grad)
    product(out, in, rows, transposed, view(x),
            [&, d = w.into().data()](Size o, Size i, Real s) { d[o * in + i] += s; });
  for (Size o = 0; b.wants_grad && o < out; ++o) b.into()[o] += sum(0, rows, [&](Size n) { return g(n, o); });
}

/// y = x w^T + b, for x [N, in], w [out, in], b [1, out].
inline Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b) {
  const Size out = w->rows;
  std::vector<Real> y(x->rows * out);
  product(x->rows, out, x->columns, view(*x), view(*w).t(),
          [&](Size n, Size o, Real s) { y[n * out + o] = s + b->values[o]; });
  return record(x->rows, out, std::move(y), {x, w, b},
                [](const Node& node) { linear_back(node, view(node.grad, node.rows, node.columns)); });
}

/// The mean over the rows n of scores [N, C] of -log softmax(scores_n)[labels_n].
inline Tensor cross_entropy(const Tensor& scores, std::vector<Size> labels) {
  const View x = view(*scores);
  const auto lse = [](const View& x, Size n) {
    return log_sum_exp(x.columns, [&](Size c) { return x(n, c); });
  };
  const Real loss = sum(0, x.rows, [&](Size n) { return lse(x, n) - x(n, labels[n]); }) / Real(x.rows);
  return record(1, 1, {loss}, {scores}, [lse, labels = std::move(labels)](const Node& node) {
    Node& scores = *node.inputs[0];
    const View x = view(scores);
    for (Size n = 0; n < x.rows; ++n) {
      const Real whole = lse(x, n);
      for (Size c = 0; c < x.columns; ++c)
        scores.into()[n * x.columns + c] +=
            node.grad[0] * (std::exp(x(n, c) - whole) - (c == labels[n] ? 1 : 0)) / Real(x.rows);
    }
  });
}

}  // namespace mini
