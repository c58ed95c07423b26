// Chapter 6: a layer and a loss. The products are those of chapter 8.

namespace mini {

/// The gradients of y = x w^T + b, from g(n, o), the cotangent of y; `node` has the inputs x [N, in], w [out, in], b [1, out].
template <class Cotangent>
void linear_back(const Node& node, const Cotangent& g) {
  (void)node, (void)g;
  gap("linear_back");  // yours: dx = g w, dw = g^T x, db = sum_n g_n, each by product() or sum(), into what is there
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
  const Real loss = (gap("cross_entropy"), lse(x, 0));  // yours
  return record(1, 1, {loss}, {scores}, [lse, labels = std::move(labels)](const Node& node) {
    Node& scores = *node.inputs[0];
    const View x = view(scores);
    (void)x, (void)lse;
    gap("the way back of cross_entropy");  // yours: (softmax - [c = label]) / N, times the gradient of the loss
  });
}

}  // namespace mini
