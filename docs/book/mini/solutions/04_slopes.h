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
    Node &a = *n.inputs[0], &b = *n.inputs[1];
    for (Size i = 0; a.wants_grad && i < n.size(); ++i) a.into()[i] += n.grad[i] * b.values[i];
    for (Size i = 0; b.wants_grad && i < n.size(); ++i) b.into()[i] += n.grad[i] * a.values[i];
  });
}

/// max(x, 0), whose slope at 0 is 0.
inline Tensor relu(const Tensor& x) {
  std::vector<Real> y = x->values;
  for (Real& v : y) v = v > 0 ? v : 0;
  return record(x->rows, x->columns, std::move(y), {x}, [](const Node& n) {
    for (Size i = 0; i < n.size(); ++i) n.inputs[0]->into()[i] += n.values[i] > 0 ? n.grad[i] : 0;
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
  x->grad.clear();
  backward(f());
  const std::vector<Real> slopes = x->into();
  Real worst = 0;
  const NoGrad guard;
  for (Size i = 0; i < x->size(); ++i) {
    const Real value = x->values[i];
    x->values[i] = value + eps;
    const Real above = f()->values[0];
    x->values[i] = value - eps;
    const Real below = f()->values[0];
    x->values[i] = value;
    const Real wanted = (above - below) / (2 * eps);
    worst = std::max(worst, std::abs(slopes[i] - wanted) / (1 + std::abs(wanted)));
  }
  x->grad.clear();
  return worst;
}

}  // namespace mini
