// Chapter 7: how parameters move.

namespace mini {

/// AdamW: steps of about `lr` against the gradient, and a pull towards 0 that is apart from them.
struct AdamW {
  std::vector<Tensor> parameters;
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  std::vector<std::vector<Real>> m = {}, v = {};  // running means of g and of g g
  int steps = 0;

  void zero_grad() {
    for (const Tensor& p : parameters) p->grad.clear();
  }

  /// Moves each parameter that has a gradient.
  void step() {
    m.resize(parameters.size()), v.resize(parameters.size()), ++steps;
    const double correct_m = 1 - std::pow(beta1, steps), correct_v = 1 - std::pow(beta2, steps);
    for (Size n = 0; n < parameters.size(); ++n) {
      Node& p = *parameters[n];
      m[n].resize(p.size()), v[n].resize(p.size());
      for (Size i = 0; i < p.grad.size(); ++i) {
        const double g = p.grad[i];
        m[n][i] = Real(beta1 * m[n][i] + (1 - beta1) * g);
        v[n][i] = Real(beta2 * v[n][i] + (1 - beta2) * g * g);
        const double move = m[n][i] / correct_m / (std::sqrt(v[n][i] / correct_v) + eps);
        p.values[i] = Real(p.values[i] * (1 - lr * weight_decay) - lr * move);
      }
    }
  }
};

}  // namespace mini
