#pragma once

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // about _mm512_undefined_pd(), GCC bug 105593
#include <Eigen/Core>

#include <cstdint>

#include <cotangent/core/tensor/tensor.h>

// Matrices of tensors as Eigen's, for the plain kernels of rooms (NAME_plain.h). All tensors are f64 and on the CPU, in any
// strides. The product of matrices is `a * b` in the plain kernels that hold the library's own products to it; the others call
// product(a, b), which is one of those: Eigen's are not for the processor at hand, and each takes seconds to compile.

namespace ct::plain {

/// A matrix of its own, and one that lies in a tensor, to be read or written. The latter are Eigen's maps: passed by
/// reference, assigned by value.
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixStride = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
using ConstMatrix = Eigen::Map<const Matrix, 0, MatrixStride>;
using MutableMatrix = Eigen::Map<Matrix, 0, MatrixStride>;
/// A number for each row of a matrix.
using Column = Eigen::ArrayXd;

/// The matrix of `t` whose first element lies `at` elements after t's first one.
inline MutableMatrix matrix(const Tensor& t, std::int64_t at, std::int64_t rows, std::int64_t cols,
                            std::int64_t row_stride, std::int64_t col_stride) {
  double* const data = rows == 0 || cols == 0 ? nullptr : t.data<double>() + at;
  return {data, rows, cols, MatrixStride(row_stride, col_stride)};
}

/// A matrix of a tensor that is only read.
inline ConstMatrix read(const MutableMatrix& m) {
  return {m.data(), m.rows(), m.cols(), MatrixStride(m.outerStride(), m.innerStride())};
}

/// A matrix of its own, as one to read.
inline ConstMatrix read(const Matrix& m) { return {m.data(), m.rows(), m.cols(), MatrixStride(m.cols(), 1)}; }

inline ConstMatrix transposed(const ConstMatrix& m) {
  return {m.data(), m.cols(), m.rows(), MatrixStride(m.innerStride(), m.outerStride())};
}

/// a b, by gemm_cpu.h
Matrix product(const ConstMatrix& a, const ConstMatrix& b);

}  // namespace ct::plain
