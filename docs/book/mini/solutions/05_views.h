// Chapter 5: the same numbers, looked at in another way.

namespace mini {

/// A matrix by strides: (i, j) is data[i * down + j * right].
struct View {
  const Real* data;
  Size rows, columns, down, right;

  Real operator()(Size i, Size j) const { return data[i * down + j * right]; }
  View t() const { return {data, columns, rows, right, down}; }
};

/// Numbers that lie row by row.
inline View view(const std::vector<Real>& values, Size rows, Size columns) {
  return {values.data(), rows, columns, columns, 1};
}
inline View view(const Node& n) { return view(n.values, n.rows, n.columns); }

/// One row [1, columns] as `rows` equal ones, without a copy.
inline View broadcast(const std::vector<Real>& row, Size rows) {
  return {row.data(), rows, row.size(), 0, 1};
}

/// x [N, C] + b [1, C], added to each row.
inline Tensor add_row(const Tensor& x, const Tensor& b) {
  const View each = broadcast(b->values, x->rows);
  std::vector<Real> y = x->values;
  for (Size i = 0; i < x->rows; ++i)
    for (Size j = 0; j < x->columns; ++j) y[i * x->columns + j] += each(i, j);
  return record(x->rows, x->columns, std::move(y), {x, b}, [](const Node& n) {
    Node &x = *n.inputs[0], &b = *n.inputs[1];
    const View g = view(n.grad, n.rows, n.columns);
    for (Size i = 0; x.wants_grad && i < n.size(); ++i) x.into()[i] += n.grad[i];
    for (Size j = 0; b.wants_grad && j < n.columns; ++j)
      b.into()[j] += sum(0, n.rows, [&](Size i) { return g(i, j); });
  });
}

}  // namespace mini
