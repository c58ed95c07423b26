// Chapter 4: slopes, and how to know.

namespace mini {

/// a + b, for equal shapes.
inline Tensor add(const Tensor& a, const Tensor& b) {
  std::vector<Real> y = a->values;
  for (Size i = 0; i < y.size(); ++i) y[i] += b->values[i];
  return record(a->rows, a->columns, std::move(y), {a, b}, [](const Node& n) {
    for (const Tensor& in : n.inputs)
      for (Size i = 0; in->wants_grad && i < n.size(); ++i) in->into()[i] += n.grad[i];
  });
}

/// a b, number by number, for equal shapes.
inline Tensor mul(const Tensor& a, const Tensor& b) {
  std::vector<Real> y = a->values;
  for (Size i = 0; i < y.size(); ++i) y[i] *= b->values[i];
  return record(a->rows, a->columns, std::move(y), {a, b}, [](const Node& n) {
    (void)n;
    gap("the way back of mul");  // yours
  });
}

/// max(x, 0), whose slope at 0 is 0.
inline Tensor relu(const Tensor& x) {
  std::vector<Real> y = x->values;
  for (Real& v : y) v = v > 0 ? v : 0;
  return record(x->rows, x->columns, std::move(y), {x}, [](const Node& n) {
    (void)n;
    gap("the way back of relu");  // yours
  });
}

/// The sum of all of x: a loss to try things with.
inline Tensor total(const Tensor& x) {
  return record(1, 1, {sum(0, x->size(), [&](Size i) { return x->values[i]; })}, {x}, [](const Node& n) {
    for (Real& d : n.inputs[0]->into()) d += n.grad[0];
  });
}

/// The largest |a - b| / (1 + |b|) over the elements of the leaf x, for the slopes a by backward(f()) and b by differences,
/// (f(x + eps) - f(x - eps)) / 2 eps. f() makes a tensor of one number from x anew, or without x, whose slopes are 0 then; x has
/// its values, and no gradient, in the end.
template <class F>
Real worst_slope(const Tensor& x, const F& f, Real eps = 1e-5) {
  (void)x, (void)f, (void)eps;
  gap("worst_slope");  // yours
}

}  // namespace mini
