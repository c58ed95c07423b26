#pragma once

#include <cmath>
#include <vector>

namespace answer {

/// p shrinks by the factor 1 - lr weight_decay, whatever its gradients have been; Adam's step follows. In the stub the decay
/// is divided by sqrt(v), so that parameters with large gradients hardly decay at all.
struct AdamW {
  double lr, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.1;
  std::vector<double> m = {}, v = {};
  int t = 0;

  void step(std::vector<double>& p, const std::vector<double>& g) {
    m.resize(p.size()), v.resize(p.size()), ++t;
    for (std::size_t i = 0; i < p.size(); ++i) {
      p[i] *= 1 - lr * weight_decay;
      m[i] += (1 - beta1) * (g[i] - m[i]);
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      p[i] -= lr * m[i] / (1 - std::pow(beta1, t)) / (std::sqrt(v[i] / (1 - std::pow(beta2, t))) + eps);
    }
  }
};

}  // namespace answer
