#pragma once

#include <cotangent/ops/engine/gemm/plain.h>

// One product of matrices and its gradients, in the plainest way. README.md derives them.

namespace ct::plain {

/// y = a b: y_ij = sum_p a_ip b_pj
inline void matmul(const ConstMatrix& a, const ConstMatrix& b, MutableMatrix y) { y = a * b; }

/// da = g b^T. It is added, as a matrix that is broadcast takes part in several products.
inline void add_left_gradient(const ConstMatrix& g, const ConstMatrix& b, MutableMatrix da) {
  da += g * b.transpose();
}

/// db = a^T g
inline void add_right_gradient(const ConstMatrix& g, const ConstMatrix& a, MutableMatrix db) {
  db += a.transpose() * g;
}

}  // namespace ct::plain
