#pragma once

#include <cstdint>

#include <cotangent/core/base/error.h>

namespace ct {

/// The elements of a CPU tensor by their indices, for loops of one's own:
///
///     auto a = x.accessor<float, 2>();
///     for (std::int64_t i = 0; i < a.size(0); ++i) a[i][i] = 1;
///
/// It refers to the tensor's memory, in any layout, and neither keeps it alive nor tells the tape of a change. Indices are
/// checked in debug builds alone. (Tensor::accessor makes one.)
template <class T, int N>
class Accessor {
  static_assert(N >= 1, "an accessor has at least one axis; item() reads a tensor without axes");

 public:
  Accessor(T* data, const std::int64_t* sizes, const std::int64_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  std::int64_t size(int axis) const { return sizes_[axis]; }
  std::int64_t stride(int axis) const { return strides_[axis]; }
  T* data() const { return data_; }

  /// The element, or an accessor to what lies behind the first axis.
  decltype(auto) operator[](std::int64_t i) const {
    CT_ASSERT(0 <= i && i < sizes_[0]);
    T* const at = data_ + i * strides_[0];
    if constexpr (N == 1) {
      return static_cast<T&>(*at);
    } else {
      return Accessor<T, N - 1>(at, sizes_ + 1, strides_ + 1);
    }
  }

 private:
  T* data_;
  const std::int64_t* sizes_;
  const std::int64_t* strides_;
};

}  // namespace ct
