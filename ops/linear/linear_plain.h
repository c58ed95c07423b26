#pragma once

#include <cotangent/ops/engine/gemm/plain.h>

// linear of rows x [N, in] by w [out, in], and its gradients, in the plainest way. README.md derives them.

namespace ct::plain {

/// y = x w^T
inline void linear(const ConstMatrix& x, const ConstMatrix& w, MutableMatrix y) { y = x * w.transpose(); }

/// y_n = x_n w^T + b, with b as a matrix of one row
inline void linear(const ConstMatrix& x, const ConstMatrix& w, const ConstMatrix& b, MutableMatrix y) {
  y = (x * w.transpose()).rowwise() + b.row(0);
}

/// dx = g w
inline Matrix input_gradient(const ConstMatrix& g, const ConstMatrix& w) { return g * w; }

/// dw = g^T x
inline Matrix weight_gradient(const ConstMatrix& g, const ConstMatrix& x) { return g.transpose() * x; }

/// db = sum_n g_n
inline Matrix bias_gradient(const ConstMatrix& g) { return g.colwise().sum(); }

/// linear_relu: y from an element of x w^T + b, and the cotangent of that element from y's. A NaN stays one.
inline double rectified(double x) { return x <= 0 ? 0 : x; }
inline double passed(double g, double y) { return y <= 0 ? 0 : g; }

}  // namespace ct::plain
