#pragma once

// Between Eigen and tensors. Not part of <cotangent/cotangent.h>: whoever includes it has Eigen.
//
// Vectors (types with one row or column at compile time) are tensors of rank 1, everything else is of rank
// 2. Element types are float, double, std::int64_t, std::int32_t, std::uint8_t and bool.

#ifndef EIGEN_WORLD_VERSION
#if !__has_include(<Eigen/Core>)
#error "cotangent/ops/interop_eigen.h needs Eigen: put the folder with Eigen/Core on the include path"
#endif
#include <Eigen/Core>
#endif

#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/creation/creation.h>

namespace ct {

namespace detail {
template <class T>
using EigenRowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using EigenStride = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;

template <class T>
void check_eigen(const char* op, const Tensor& t, int rank) {
  CT_CHECK(t.dtype() == dtype_of<T>, DTypeError, op, "got ", describe(t), ", want dtype ", dtype_of<T>,
           "; convert it with .to(dtype)");
  CT_CHECK(t.dim() == rank, ShapeError, op, "got ", describe(t), ", want rank ", rank,
           "; use a matrix type for rank 2, a vector type for rank 1, or reshape the tensor");
}
}  // namespace detail

/// The coefficients of an Eigen matrix, vector, array or expression, copied, whatever its storage order.
/// The dtype is that of its scalar unless given.
template <class Derived>
Tensor from_eigen(const Eigen::DenseBase<Derived>& source, const TensorOptions& options = {}) {
  using T = typename Derived::Scalar;
  Tensor values;
  if constexpr (Derived::IsVectorAtCompileTime) {
    values = Tensor::allocate({static_cast<std::int64_t>(source.size())}, dtype_of<T>, cpu);
  } else {
    values =
        Tensor::allocate({static_cast<std::int64_t>(source.rows()), static_cast<std::int64_t>(source.cols())},
                         dtype_of<T>, cpu);
  }
  Eigen::Map<detail::EigenRowMajor<T>>(values.data<T>(), source.rows(), source.cols()) = source.derived();
  if (options.dtype) values = values.to(*options.dtype);
  values = values.to(options.device);
  if (options.requires_grad) values.set_requires_grad();
  return values;
}

/// A view of a tensor on the CPU as an Eigen matrix, without a copy: any strides, writable. The tensor must
/// outlive it; changes made through it are not seen by the tape. Throws DTypeError unless T is the element
/// type, ShapeError unless the rank is 2, DeviceError unless the tensor is on the CPU.
template <class T>
Eigen::Map<detail::EigenRowMajor<T>, Eigen::Unaligned, detail::EigenStride> map_eigen(const Tensor& t) {
  detail::check_eigen<T>("map_eigen", t, 2);
  CT_CHECK(t.is_cpu(), DeviceError, "map_eigen", "got ", describe(t),
           "; Eigen works on the CPU: use .to(ct::cpu)");
  return {
      t.data<T>(), static_cast<Eigen::Index>(t.size(0)), static_cast<Eigen::Index>(t.size(1)),
      detail::EigenStride(static_cast<Eigen::Index>(t.stride(0)), static_cast<Eigen::Index>(t.stride(1)))};
}

/// The values as an Eigen type, copied, from any device: `to_eigen<Eigen::MatrixXf>(t)`,
/// `to_eigen<Eigen::VectorXd>(t)`. Throws DTypeError unless the scalars agree, ShapeError for another rank,
/// or for sizes that a type of fixed size does not have.
template <class Matrix>
Matrix to_eigen(const Tensor& t) {
  using T = typename Matrix::Scalar;
  constexpr bool vector = Matrix::IsVectorAtCompileTime;
  detail::check_eigen<T>("to_eigen", t, vector ? 1 : 2);
  const auto rows = static_cast<Eigen::Index>(!vector || Matrix::ColsAtCompileTime == 1 ? t.size(0) : 1);
  const auto columns = static_cast<Eigen::Index>(!vector                          ? t.size(1)
                                                 : Matrix::ColsAtCompileTime == 1 ? 1
                                                                                  : t.size(0));
  CT_CHECK((Matrix::RowsAtCompileTime == Eigen::Dynamic || Matrix::RowsAtCompileTime == rows) &&
               (Matrix::ColsAtCompileTime == Eigen::Dynamic || Matrix::ColsAtCompileTime == columns),
           ShapeError, "to_eigen", "got ", describe(t), "; the Eigen type has the fixed size ",
           static_cast<int>(Matrix::RowsAtCompileTime), " x ", static_cast<int>(Matrix::ColsAtCompileTime),
           " (-1 is any)");
  const Tensor host = t.detach().to(cpu).contiguous();
  return Eigen::Map<const detail::EigenRowMajor<T>>(host.data<T>(), rows, columns);
}

}  // namespace ct
