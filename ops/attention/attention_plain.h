#pragma once

#include <limits>

#include <cotangent/ops/engine/gemm/plain.h>
#include <cotangent/ops/engine/rows/plain.h>

// Attention of some queries of one head, in whole matrices: q [queries, dim], k [keys, dim], v [keys, value dim]; mask and
// m, dropout's factors, are [queries, keys]. README.md derives the gradients.

namespace ct::plain {

/// P_ij = exp(s_ij - max_i) / sum_j exp(s_ij - max_i), with s = scale q k^T + mask and max_i the largest s_ij of a query, so
/// that nothing overflows. `statistics` gets max_i and log sum_j exp(s_ij - max_i). A hidden s_ij is -inf, even where k is
/// NaN; a query that sees nothing has P_ij = 0 and the statistics -inf and 0.
inline Matrix probabilities(const ConstMatrix& q, const ConstMatrix& k, const Matrix& mask, double scale,
                            Matrix& statistics) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  const Matrix s = (mask.array() == kHidden).select(mask, scale * product(q, transposed(k)) + mask);
  const Column largest = s.rowwise().maxCoeff();  // a NaN is met in the sum
  const Column sees_nothing = (largest == kHidden).cast<double>();
  Matrix e = s.array().colwise() - (largest == kHidden).select(0.0, largest);
  exp_in_place(e.data(), e.size());
  const Column sum = e.rowwise().sum().array() + sees_nothing;
  statistics.resize(q.rows(), 2);
  statistics.col(0) = largest;
  statistics.col(1) = sum.log();
  return e.array().colwise() / sum;
}

/// y_i = sum_j P_ij m_ij v_j
inline Matrix attention(const Matrix& p, const Matrix& m, const ConstMatrix& v) {
  return product(read(p.cwiseProduct(m)), v);
}

/// dv_j = sum_i P_ij m_ij g_i
inline Matrix value_gradient(const Matrix& p, const Matrix& m, const ConstMatrix& g) {
  return product(transposed(read(p.cwiseProduct(m))), g);
}

/// ds_ij = P_ij (dP_ij - sum_j P_ij dP_ij), with dP_ij = m_ij g_i . v_j; it is dmask, too.
inline Matrix score_gradient(const Matrix& p, const Matrix& m, const ConstMatrix& g, const ConstMatrix& v) {
  const Matrix dp = m.cwiseProduct(product(g, transposed(v)));
  const Column delta = p.cwiseProduct(dp).rowwise().sum();
  return p.array() * (dp.array().colwise() - delta);
}

/// dq_i = scale sum_j ds_ij k_j
inline Matrix query_gradient(const Matrix& ds, const ConstMatrix& k, double scale) {
  return scale * product(read(ds), k);
}

/// dk_j = scale sum_i ds_ij q_i
inline Matrix key_gradient(const Matrix& ds, const ConstMatrix& q, double scale) {
  return scale * product(transposed(read(ds)), q);
}

}  // namespace ct::plain
