#pragma once

// The squared error of one element and its gradient. mse_loss.md says what becomes of many.

namespace ct::plain {

/// y = (x - t)^2
inline double mse_loss(double x, double t) { return (x - t) * (x - t); }

/// dx = 2 g (x - t)
inline double mse_loss_dx(double g, double x, double t) { return 2 * g * (x - t); }

/// dt = -dx
inline double mse_loss_dt(double g, double x, double t) { return -mse_loss_dx(g, x, t); }

}  // namespace ct::plain
