#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <string>
#include <utility>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/base/number.h>

namespace ct {

/// The highest rank a tensor can have.
inline constexpr int kMaxRank = 8;

namespace detail {
template <class T>
concept WholeNumbers = requires(const T& list) {
  std::size(list);
  requires WholeNumber<std::remove_cvref_t<decltype(*std::data(list))>>;
};
}  // namespace detail

/// A short list of 64-bit integers stored inline: sizes, strides, axes, permutations.
/// Holding more than kMaxRank values throws ShapeError.
///
/// Where one is wanted, write {2, 3}, a single whole number, or a vector, array or span of whole numbers:
/// zeros({2, 3}), zeros(3), zeros(sizes), sum(x, 0).
class CT_API Dims {
 public:
  constexpr Dims() {}  // by hand: of a defaulted one Dims() would fill data_ with zeros first
  Dims(std::initializer_list<Integer> values) : Dims(values.begin(), values.size()) {}
  template <WholeNumber T>
  Dims(T value) : Dims({value}) {}
  template <detail::WholeNumbers List>
  Dims(const List& values) : Dims(std::data(values), std::size(values)) {}
  template <class T>
  Dims(const T* values, std::size_t count) {
    CT_CHECK(count <= kMaxRank, ShapeError, "shape", "got ", count, " dimensions; at most 8 are supported");
    for (std::size_t i = 0; i < count; ++i) data_[i] = static_cast<std::int64_t>(values[i]);
    size_ = static_cast<int>(count);
  }
  /// `count` copies of `value`.
  static Dims filled(int count, std::int64_t value) {
    Dims d;
    for (int i = 0; i < count; ++i) d.push_back(value);
    return d;
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t operator[](int i) const { return data_[static_cast<std::size_t>(i)]; }
  std::int64_t& operator[](int i) { return data_[static_cast<std::size_t>(i)]; }
  const std::int64_t* begin() const { return data_.data(); }
  const std::int64_t* end() const { return data_.data() + size_; }
  std::int64_t* begin() { return data_.data(); }
  std::int64_t* end() { return data_.data() + size_; }
  std::int64_t back() const { return (*this)[size_ - 1]; }
  std::int64_t& back() { return (*this)[size_ - 1]; }

  void push_back(std::int64_t value) {
    CT_CHECK(size_ < kMaxRank, ShapeError, "shape", "more than 8 dimensions; at most 8 are supported");
    (*this)[size_++] = value;
  }
  void pop_back() { --size_; }
  void insert(int at, std::int64_t value);
  void erase(int at);

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.size_ != b.size_) return false;
    // As bytes: of a plain loop here compilers believe to see reads of what lies behind the last value.
    for (int i = 0; i < a.size_; ++i)
      if (std::memcmp(a.begin() + i, b.begin() + i, sizeof(std::int64_t)) != 0) return false;
    return true;
  }

 private:
  std::array<std::int64_t, kMaxRank> data_;  // only the first size_ values have a meaning
  int size_ = 0;
};

using Shape = Dims;
using Strides = Dims;

/// The number of elements of a shape: the product of its sizes, 1 for a scalar.
inline std::int64_t numel(const Shape& shape) {
  std::int64_t n = 1;
  for (std::int64_t s : shape) n *= s;
  return n;
}

/// Strides, in elements, of a row-major (C-contiguous) tensor.
inline Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  std::int64_t step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i] > 1 ? shape[i] : 1;
  }
  return strides;
}

/// True when a tensor with these strides is laid out row by row without gaps. Strides of axes of size 1
/// do not count, and an empty tensor is contiguous.
CT_API bool is_contiguous(const Shape& shape, const Strides& strides);

/// The shape that `a` and `b` broadcast to (NumPy's rule: align at the right, sizes equal or 1).
/// Throws ShapeError naming `op` when they do not fit.
CT_API Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

/// Strides with which a tensor of `shape` and `strides` is read as `target` (0 along broadcast axes).
/// `shape` must broadcast to `target`.
CT_API Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& target);

/// The first axis along which elements share one place in memory (stride 0, size above 1), or -1.
CT_API int expanded_axis(const Shape& shape, const Strides& strides);

/// Turns an axis counted from the end (-1 is the last) into one counted from the front.
/// Throws ShapeError naming `op` when it lies outside [-rank, rank). A scalar accepts 0 and -1.
CT_API int wrap_axis(const char* op, std::int64_t axis, int rank);

/// Throws ShapeError unless every size is >= 0 and the number of elements fits in 63 bits.
CT_API void check_sizes(const char* op, const Shape& shape);

/// "[2, 3]"
CT_API std::string to_string(const Dims& dims);
CT_API std::ostream& operator<<(std::ostream& out, const Dims& dims);

}  // namespace ct
