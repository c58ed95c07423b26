#pragma once

#include <cotangent/ops/engine/rows/plain.h>

// The loss of one row of log-probabilities x, its label t and the label's weight w[t], and its gradient.

namespace ct::plain {

/// y = -w[t] x[t]
inline double nll_loss(const Row& x, std::int64_t t, double w_t) { return -w_t * x[t]; }

/// dx_c = -g w[t] [c = t], of which this is dx_t
inline double nll_loss_gradient(double g, double w_t) { return -g * w_t; }

}  // namespace ct::plain
