#pragma once

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // about _mm512_undefined_pd(), GCC bug 105593
#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <cotangent/core/parallel.h>
#include <cotangent/core/tensor.h>

// Rows of tensors as Eigen's arrays, for the plain kernels of rooms (NAME_plain.h): the code of one row reads there
// like the formula. All tensors are f64, contiguous and on the CPU.

namespace ct::plain {

/// A row, and one to write: neighbours along the row's axis may lie apart. Both are Eigen's maps: passed by reference,
/// assigned by value.
using Row = Eigen::Map<const Eigen::ArrayXd, 0, Eigen::InnerStride<>>;
using MutableRow = Eigen::Map<Eigen::ArrayXd, 0, Eigen::InnerStride<>>;
/// A row of positions in another, to read and to write.
using Positions = Eigen::Map<Eigen::Array<std::int64_t, Eigen::Dynamic, 1>, 0, Eigen::InnerStride<>>;

/// e^x by vectors; but where it is no normal number, of which Eigen makes 5.6e-309, by the C++ library.
inline Eigen::ArrayXd exp_of(const Eigen::ArrayXd& x) {
  Eigen::ArrayXd y = x.exp();
  for (Eigen::Index i = 0; i < x.size(); ++i)
    if (x[i] < -708) y[i] = std::exp(x[i]);
  return y;
}

/// The rows of contiguous tensors of a shape along an axis.
class Rows {
 public:
  Rows(const Shape& shape, int axis) {
    for (int i = 0; i < shape.size(); ++i) (i < axis ? outer_ : i == axis ? size_ : inner_) *= shape[i];
  }
  std::int64_t count() const { return size_ == 0 ? 0 : outer_ * inner_; }
  /// Row r of `t`.
  Row of(const Tensor& t, std::int64_t r) const {
    return {t.data<double>() + start(r), size_, Eigen::InnerStride<>(inner_)};
  }
  MutableRow in(const Tensor& t, std::int64_t r) const {
    return {t.data<double>() + start(r), size_, Eigen::InnerStride<>(inner_)};
  }
  Positions positions(const Tensor& t, std::int64_t r) const {
    return {t.data<std::int64_t>() + start(r), size_, Eigen::InnerStride<>(inner_)};
  }

  /// Calls f(r) for all rows; those of a large tensor on several threads.
  template <class F>
  void each(const F& f) const {
    constexpr std::int64_t kElements = 1 << 13;  // for one thread
    parallel_for(count(), std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, size_)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t r = begin; r < end; ++r) f(r);
                 });
  }

 private:
  std::int64_t start(std::int64_t r) const { return r / inner_ * size_ * inner_ + r % inner_; }
  std::int64_t outer_ = 1, size_ = 1, inner_ = 1;
};

}  // namespace ct::plain
