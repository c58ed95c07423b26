#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

// A network of two layers for points of a plane, forward and back, on plain loops. Chapter 6 walks through it.

namespace book {

/// A matrix, row by row.
struct Matrix {
  std::size_t rows, columns;
  std::vector<double> values;
  Matrix(std::size_t r, std::size_t c) : rows(r), columns(c), values(r * c, 0.0) {}
  double& operator()(std::size_t i, std::size_t j) { return values[i * columns + j]; }
  double operator()(std::size_t i, std::size_t j) const { return values[i * columns + j]; }
};

/// y = x w^T + b: x [N, in], w [out, in], b [1, out], y [N, out]
inline Matrix linear(const Matrix& x, const Matrix& w, const Matrix& b) {
  Matrix y(x.rows, w.rows);
  for (std::size_t n = 0; n < x.rows; ++n)
    for (std::size_t o = 0; o < w.rows; ++o) {
      y(n, o) = b(0, o);
      for (std::size_t i = 0; i < x.columns; ++i) y(n, o) += x(n, i) * w(o, i);
    }
  return y;
}

/// dx = g w, dw = g^T x, db = sum_n g_n, from the cotangent g [N, out] of y. The gradients are added to.
inline void linear_back(const Matrix& g, const Matrix& x, const Matrix& w, Matrix& dx, Matrix& dw,
                        Matrix& db) {
  for (std::size_t n = 0; n < x.rows; ++n)
    for (std::size_t o = 0; o < w.rows; ++o) {
      db(0, o) += g(n, o);
      for (std::size_t i = 0; i < x.columns; ++i) {
        dx(n, i) += g(n, o) * w(o, i);
        dw(o, i) += g(n, o) * x(n, i);
      }
    }
}

/// y = max(x, 0)
inline Matrix relu(const Matrix& x) {
  Matrix y = x;
  for (double& v : y.values) v = v > 0 ? v : 0;
  return y;
}

/// dx = g where y > 0, else 0
inline Matrix relu_back(const Matrix& g, const Matrix& y) {
  Matrix dx = g;
  for (std::size_t i = 0; i < dx.values.size(); ++i) dx.values[i] = y.values[i] > 0 ? g.values[i] : 0;
  return dx;
}

/// The mean over the rows of -log softmax(x)[label], and its gradient dx = (softmax(x) - [c = label]) / N.
inline double cross_entropy(const Matrix& x, const std::vector<std::size_t>& labels, Matrix& dx) {
  double loss = 0;
  const auto n = static_cast<double>(x.rows);
  for (std::size_t r = 0; r < x.rows; ++r) {
    double largest = x(r, 0), sum = 0;
    for (std::size_t c = 1; c < x.columns; ++c) largest = x(r, c) > largest ? x(r, c) : largest;
    for (std::size_t c = 0; c < x.columns; ++c) sum += std::exp(x(r, c) - largest);
    loss += (std::log(sum) - (x(r, labels[r]) - largest)) / n;
    for (std::size_t c = 0; c < x.columns; ++c)
      dx(r, c) = (std::exp(x(r, c) - largest) / sum - (c == labels[r] ? 1 : 0)) / n;
  }
  return loss;
}

/// linear, relu, linear: a plane in, a score for each class out.
struct Network {
  Matrix w1, b1, w2, b2;
  Network(std::size_t in, std::size_t hidden, std::size_t classes)
      : w1(hidden, in), b1(1, hidden), w2(classes, hidden), b2(1, classes) {}

  Matrix scores(const Matrix& x) const { return linear(relu(linear(x, w1, b1)), w2, b2); }

  /// One step of gradient descent; returns the loss before it.
  double step(const Matrix& x, const std::vector<std::size_t>& labels, double rate) {
    const Matrix h = relu(linear(x, w1, b1)), y = linear(h, w2, b2);
    Matrix g(y.rows, y.columns);
    const double loss = cross_entropy(y, labels, g);

    Network d(w1.columns, w1.rows, w2.rows);  // the gradients, in the same shapes
    Matrix dh(h.rows, h.columns), dx(x.rows, x.columns);
    linear_back(g, h, w2, dh, d.w2, d.b2);
    linear_back(relu_back(dh, h), x, w1, dx, d.w1, d.b1);

    const auto descend = [rate](Matrix& p, const Matrix& dp) {
      for (std::size_t i = 0; i < p.values.size(); ++i) p.values[i] -= rate * dp.values[i];
    };
    descend(w1, d.w1), descend(b1, d.b1), descend(w2, d.w2), descend(b2, d.b2);
    return loss;
  }
};

}  // namespace book
