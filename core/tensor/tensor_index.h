#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include <cotangent/core/base/number.h>
#include <cotangent/core/tensor/tensor.h>

// Indices of Tensor::index() and index_put_(): x.index({Slice(0, 3), None, Ellipsis, 2, rows, mask}).

namespace ct {

struct NoneType {};
struct EllipsisType {};
/// As an index a new axis of size 1; as a bound of a slice none.
inline constexpr NoneType None;
/// As many whole axes as the other indices leave.
inline constexpr EllipsisType Ellipsis;

/// A bound of a slice: a whole number or None.
class SliceBound {
 public:
  constexpr SliceBound(NoneType = {}) {}
  template <StandsFor<std::int64_t> Whole>
  constexpr SliceBound(Whole value) : value_(static_cast<std::int64_t>(value)) {}
  constexpr std::int64_t value_or(std::int64_t other) const { return value_.value_or(other); }

 private:
  std::optional<std::int64_t> value_;
};

/// Python's start:stop:step; Slice() is a whole axis, Slice(None, 3) the first three. step > 0.
struct Slice {
  constexpr explicit Slice(SliceBound first = None, SliceBound end = None, Integer by = 1)
      : start(first), stop(end), step(by) {}
  SliceBound start, stop;
  std::int64_t step;
};

/// One index: a whole number, a Slice, None, Ellipsis, or a tensor of integers or a mask. A tensor of one integer, of rank 0,
/// selects as the number does, and waits for the device.
class TensorIndex {
 public:
  enum class Kind : std::uint8_t { number, slice, none, ellipsis, tensor };

  template <StandsFor<std::int64_t> Whole>
  TensorIndex(Whole value) : number_(static_cast<std::int64_t>(value)) {}
  TensorIndex(const Slice& slice) : kind_(Kind::slice), slice_(slice) {}
  TensorIndex(NoneType) : kind_(Kind::none) {}
  TensorIndex(EllipsisType) : kind_(Kind::ellipsis) {}
  TensorIndex(const Tensor& tensor) : kind_(Kind::tensor), tensor_(tensor) {}

  Kind kind() const { return kind_; }
  /// The value, by its kind.
  std::int64_t number() const { return number_; }
  const Slice& slice() const { return slice_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  Kind kind_ = Kind::number;
  std::int64_t number_ = 0;
  Slice slice_;
  Tensor tensor_;
};

/// Indices handed to a function: {0, Slice(1, 3)}, a vector or a span. It refers to them, as TensorList does.
class TensorIndices : public std::span<const TensorIndex> {
 public:
  TensorIndices(std::initializer_list<TensorIndex> list) : span(list.begin(), list.size()) {}
  TensorIndices(const std::vector<TensorIndex>& list) : span(list.data(), list.size()) {}
  TensorIndices(std::span<const TensorIndex> list) : span(list) {}
};

/// The names where LibTorch has them.
namespace indexing {
using ct::Ellipsis;
using ct::None;
using ct::Slice;
using ct::TensorIndex;
}  // namespace indexing

}  // namespace ct
