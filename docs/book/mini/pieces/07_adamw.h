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
      (void)correct_m, (void)correct_v, (void)p;
      gap("AdamW::step");  // yours: for each number that has a gradient
    }
  }
};

}  // namespace mini
