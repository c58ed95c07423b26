#pragma once

#include <network.h>

// Cross-entropy with label smoothing: a network is asked to be a little unsure.

namespace answer {

using book::Matrix;

/// One row of scores x [1, C]: the loss (1 - s) L_label + s/C sum_c L_c, where L_c = -log softmax(x)_c, and its gradient dx,
/// which holds zeros before.
inline double smooth_cross_entropy(const Matrix& x, std::size_t label, double s, Matrix& dx) {
  (void)s;
  return cross_entropy(x, {label}, dx);  // yours: right for s = 0 only
}

}  // namespace answer
