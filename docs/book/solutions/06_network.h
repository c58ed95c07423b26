#pragma once

#include <network.h>

namespace answer {

using book::Matrix;

/// A sum of losses has the sum of their gradients. That of L_c is p - [j = c], with p = softmax(x), so all together
/// dx_j = p_j - (1 - s) [j = label] - s/C: the factors sum up to 1.
inline double smooth_cross_entropy(const Matrix& x, std::size_t label, double s, Matrix& dx) {
  double loss = 0;
  Matrix d(1, x.columns);
  for (std::size_t c = 0; c < x.columns; ++c) {
    const double factor = (c == label ? 1 - s : 0) + s / static_cast<double>(x.columns);
    loss += factor * cross_entropy(x, {c}, d);
    for (std::size_t j = 0; j < x.columns; ++j) dx(0, j) += factor * d(0, j);
  }
  return loss;
}

}  // namespace answer
