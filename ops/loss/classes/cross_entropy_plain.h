#pragma once

#include <cotangent/ops/engine/rows/plain.h>

// The loss of one row of C logits x with class weights w and label smoothing s, for a label t or a distribution t, and
// its gradient. cross_entropy.md derives them.

namespace ct::plain {

/// L_c = -log softmax(x)_c = lse - x_c: the loss of each class if it were the right one. Measured from the largest x, so
/// that nothing overflows.
inline Array class_losses(const Row& x) {
  const Array d = below_largest(x);
  return log_total(exp_of(d)) - d;
}

/// y = (1 - s) w_t L_t + s/C sum_c w_c L_c
inline double label_loss(const Array& L, const Array& w, std::int64_t t, double s) {
  const double smooth = s > 0 ? s / static_cast<double>(w.size()) * (w * L).sum() : 0;
  return (1 - s) * w[t] * L[t] + smooth;
}

/// Factor of each L_c: f_c = (1 - s) w_t [c = t] + s/C w_c
inline Array label_factors(const Array& w, std::int64_t t, double s) {
  Array f = Eigen::ArrayXd::Zero(w.size());
  if (s > 0) f = s / static_cast<double>(w.size()) * w;
  f[t] += (1 - s) * w[t];
  return f;
}

/// y = sum_c f_c L_c of a distribution t, with f_c = w_c ((1 - s) t_c + s/C)
inline Array soft_factors(const Array& w, const Row& t, double s) {
  return w * ((1 - s) * t + s / static_cast<double>(w.size()));
}

/// L, and p = softmax(x) = e^-L by the exponentials that L takes: the gradients are made of both.
struct Classes {
  Array L, p;
};
inline Classes classes_of(const Row& x) {
  const Array d = below_largest(x), e = exp_of(d);
  const double sum = total(e);
  return {std::log(sum) - d, e / sum};
}

/// dx_c = g (p_c sum_j f_j - f_c)
inline void cross_entropy_dx(double g, const Array& p, const Array& f, MutableRow dx) {
  dx = g * (p * f.sum() - f);
}

/// dt_c = g (1 - s) w_c L_c
inline void cross_entropy_dt(double g, const Array& L, const Array& w, double s, MutableRow dt) {
  dt = g * (1 - s) * w * L;
}

}  // namespace ct::plain
