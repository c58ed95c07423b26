#pragma once

#include <cotangent/ops/engine/gemm/plain.h>
#include <cotangent/ops/loss/classes/cross_entropy_plain.h>

// cross_entropy(x w^T, t) and its gradient, with all logits at once. linear_cross_entropy.md says how the fast kernels
// do without them.

namespace ct::plain {

/// z = x w^T: a row of logits for each row of x
inline Matrix linear_logits(const ConstMatrix& x, const ConstMatrix& w) { return product(x, transposed(w)); }

/// y = (1 - s) L_t + s/C sum_c L_c, with L = -log softmax(z), for one row of logits
inline double logits_loss(const Row& z, std::int64_t t, double s) {
  return label_loss(class_losses(z), Eigen::ArrayXd::Ones(z.size()), t, s);
}

/// dz_c = g (p_c - (1 - s) [c = t] - s/C), with p = softmax(z), for one row
inline void logits_gradient(double g, const Row& z, std::int64_t t, double s, MutableRow dz) {
  cross_entropy_dx(g, classes_of(z).p, label_factors(Eigen::ArrayXd::Ones(z.size()), t, s), dz);
}

/// dx = dz w
inline Matrix linear_dx(const Matrix& dz, const ConstMatrix& w) { return product(read(dz), w); }

/// dw = dz^T x
inline Matrix linear_dw(const Matrix& dz, const ConstMatrix& x) { return product(transposed(read(dz)), x); }

}  // namespace ct::plain
