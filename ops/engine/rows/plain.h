#pragma once

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // about _mm512_undefined_pd(), GCC bug 105593
#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <new>
#include <type_traits>

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

/// Numbers of its own, for a row: Eigen's array, of a short row in itself, else in memory of the library's allocator. The C++
/// library would give the pages of a long one back to the system, and fetch them anew for the next row.
class Array : public Eigen::Map<Eigen::ArrayXd> {
  using Map = Eigen::Map<Eigen::ArrayXd>;

 public:
  /// n numbers, not set.
  explicit Array(Eigen::Index n) : Map(n > kShort ? allocate(n) : short_, n) {}
  template <class X>
  Array(const Eigen::ArrayBase<X>& x) : Array(x.size()) {
    Map::operator=(x);
  }
  Array(const Array& x) : Array(x.size()) { Map::operator=(x); }
  Array& operator=(const Array& x) { return Map::operator=(x), *this; }
  using Map::operator=;
  ~Array() {
    if (size() > kShort) from_->deallocate(data(), static_cast<std::size_t>(size()) * sizeof(double), {});
  }

 private:
  static constexpr Eigen::Index kShort = 16;
  double* allocate(Eigen::Index n) {
    from_ = &current_allocator(cpu);
    return static_cast<double*>(from_->allocate(static_cast<std::size_t>(n) * sizeof(double), {}));
  }
  Allocator* from_;
  alignas(64) double short_[kShort];  // as memory is: how Eigen cuts a sum follows the address
};

/// Neighbouring rows along an axis that is not the last, each a column here, to read and to write.
using Block = Eigen::Map<const Eigen::Array<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                         Eigen::OuterStride<>>;
using MutableBlock = Eigen::Map<Block::PlainObject, 0, Eigen::OuterStride<>>;

/// Numbers of its own, as many as X has, a row or a block.
template <class X>
using Own = std::conditional_t<bool(X::IsVectorAtCompileTime), Array, Block::PlainObject>;

/// One number of each row, f(row), for formulas of a row or a block: a block's are spread over its columns.
template <class X, class F>
auto of_each(const X& x, const F& f) {
  if constexpr (X::IsVectorAtCompileTime)
    return f(x);
  else
    return f(x.colwise()).replicate(x.rows(), 1);
}
/// sum_j x_j. Eigen would begin the sum of what lies in memory at an aligned address: the bits would go by it.
auto total(const auto& x) {
  return of_each(1.0 * x, [](const auto& row) { return row.sum(); });
}
/// log sum_j x_j
auto log_total(const auto& x) {
  return of_each(1.0 * x, [](const auto& row) {
    using std::log;
    return log(row.sum());
  });
}

/// x_i - max_j x_j, so that no e^x overflows; a NaN is met in their sum. Of numbers of its own Eigen takes a maximum by vectors,
/// of a row with a stride one element at a time.
template <class X>
Own<X> below_largest(const X& x) {
  Own<X> d = x;
  d -= of_each(d, [](const auto& row) { return row.maxCoeff(); });
  return d;
}

/// e^x, by the vectors of the processor at hand; 0 of -inf, of which Eigen makes 5.6e-309.
template <class X>
Own<X> exp_of(const X& x) {
  Own<X> e = x;
  exp_in_place(e.data(), e.size());
  return e;
}

/// The rows of contiguous tensors of a shape along an axis.
class Rows {
  static constexpr std::int64_t kElements = 1 << 13;  // for one thread

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
    parallel_for(count(), std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, size_)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t r = begin; r < end; ++r) f(r);
                 });
  }

  /// Calls f(of, in) for all rows: of(t) are those of a tensor to be read and in(t) to be written, one row of the last axis or
  /// a block of another's.
  template <class F>
  void each_block(const F& f) const {
    if (inner_ == 1)
      return each([&](std::int64_t r) {
        f([&](const Tensor& t) { return line(t, r); }, [&](const Tensor& t) { return line_in(t, r); });
      });
    const std::int64_t most = std::max<std::int64_t>(16, kElements / 4 / std::max<std::int64_t>(1, size_)),
                       blocks = chunk_count(inner_, most);
    parallel_chunks(size_ == 0 ? 0 : outer_ * blocks, 1, [&](std::int64_t k, std::int64_t, std::int64_t) {
      const std::int64_t column = k % blocks * most, count = std::min(most, inner_ - column);
      const auto tile = [&]<class Map>(std::type_identity<Map>) {
        return [&, at = k / blocks * size_ * inner_ + column](const Tensor& t) {
          return Map(t.data<double>() + at, size_, count, Eigen::OuterStride<>(inner_));
        };
      };
      f(tile(std::type_identity<Block>()), tile(std::type_identity<MutableBlock>()));
    });
  }

 private:
  std::int64_t start(std::int64_t r) const {
    return inner_ == 1 ? r * size_ : r / inner_ * size_ * inner_ + r % inner_;
  }
  std::int64_t outer_ = 1, size_ = 1, inner_ = 1;
};

}  // namespace ct::plain
