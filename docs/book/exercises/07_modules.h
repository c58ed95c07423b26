#pragma once

#include <cmath>
#include <vector>

// AdamW: Adam whose weight decay does not go through its running means.

namespace answer {

struct AdamW {
  double lr, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.1;
  std::vector<double> m = {}, v = {};
  int t = 0;

  /// One step for the parameters p with the gradient g.
  void step(std::vector<double>& p, const std::vector<double>& g) {
    m.resize(p.size()), v.resize(p.size()), ++t;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double d = g[i] + weight_decay * p[i];  // yours: this is Adam's way; the decay is to be apart
      m[i] += (1 - beta1) * (d - m[i]);
      v[i] = beta2 * v[i] + (1 - beta2) * d * d;
      p[i] -= lr * m[i] / (1 - std::pow(beta1, t)) / (std::sqrt(v[i] / (1 - std::pow(beta2, t))) + eps);
    }
  }
};

}  // namespace answer
