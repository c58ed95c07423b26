#pragma once

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // about _mm512_undefined_pd(), GCC bug 105593
#include <Eigen/Core>

#include <algorithm>
#include <cstdint>
#include <new>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/engine/rows/exp_cpu.h>

// Rows of tensors as Eigen's arrays, for the plain kernels of rooms (NAME_plain.h): the code of one row reads there
// like the formula. All tensors are f64, contiguous and on the CPU.

namespace ct::plain {

/// A row, and one to write: neighbours along the row's axis may lie apart. Both are Eigen's maps: passed by reference,
/// assigned by value.
using Row = Eigen::Map<const Eigen::ArrayXd, 0, Eigen::InnerStride<>>;
using MutableRow = Eigen::Map<Eigen::ArrayXd, 0, Eigen::InnerStride<>>;
/// The same of a row whose neighbours lie side by side, which are read by vectors.
using Line = Eigen::Map<const Eigen::ArrayXd>;
using MutableLine = Eigen::Map<Eigen::ArrayXd>;
/// A row of positions in another, to read and to write.
using Positions = Eigen::Map<Eigen::Array<std::int64_t, Eigen::Dynamic, 1>, 0, Eigen::InnerStride<>>;

/// Numbers of its own, for a row: Eigen's array in memory of the library's allocator. The C++ library would give the pages of
/// a long one back to the system, and fetch them anew for the next row.
class Array : public Eigen::Map<Eigen::ArrayXd> {
  using Map = Eigen::Map<Eigen::ArrayXd>;

 public:
  template <class X>
  Array(const Eigen::ArrayBase<X>& x) : Array(x.size()) {
    Map::operator=(x);
  }
  Array(const Array& x) : Array(x.size()) { Map::operator=(x); }
  Array(Array&& x) noexcept : Map(x), from_(x.from_) { new (&x.map()) Map(nullptr, 0); }
  Array& operator=(const Array& x) { return Map::operator=(x), *this; }
  using Map::operator=;
  ~Array() {
    if (size() > 0) from_->deallocate(data(), static_cast<std::size_t>(size()) * sizeof(double), {});
  }

 private:
  explicit Array(Eigen::Index n) : Array(n, current_allocator(cpu)) {}
  Array(Eigen::Index n, Allocator& from)
      : Map(n == 0 ? nullptr
                   : static_cast<double*>(from.allocate(static_cast<std::size_t>(n) * sizeof(double), {})),
            n),
        from_(&from) {}
  Map& map() { return *this; }
  Allocator* from_;
};

/// e^x, by the vectors of the processor at hand; 0 of -inf, of which Eigen makes 5.6e-309.
inline Array exp_of(Array x) {
  exp_in_place(x.data(), x.size());
  return x;
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
  /// The same along the last axis.
  Line line(const Tensor& t, std::int64_t r) const { return {t.data<double>() + start(r), size_}; }
  MutableLine line_in(const Tensor& t, std::int64_t r) const { return {t.data<double>() + start(r), size_}; }
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
  std::int64_t start(std::int64_t r) const {
    return inner_ == 1 ? r * size_ : r / inner_ * size_ * inner_ + r % inner_;
  }
  std::int64_t outer_ = 1, size_ = 1, inner_ = 1;
};

}  // namespace ct::plain
