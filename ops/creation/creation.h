#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include <cotangent/core/export.h>
#include <cotangent/core/rng.h>
#include <cotangent/core/scalar.h>
#include <cotangent/core/tensor.h>

// New tensors. All functions throw ShapeError for a negative size, DeviceError for a device that is not
// there and DTypeError for a gradient on a dtype that has none; further errors are named with each function.

namespace ct {

/// Where and in what type a new tensor is made: `ct::zeros({2, 3}, {.dtype = ct::f64, .device = device})`.
struct TensorOptions {
  /// f32 if left out, except where the values say otherwise (arange of integers, randint, tensor, ...).
  std::optional<DType> dtype = {};
  Device device = cpu;
  /// Makes the tensor a leaf that collects a gradient.
  bool requires_grad = false;
};

// ---- constant values -------------------------------------------------------------------------------------

/// Uninitialised memory.
CT_API Tensor empty(const Shape& shape, const TensorOptions& options = {});
/// Filled with 0.
CT_API Tensor zeros(const Shape& shape, const TensorOptions& options = {});
/// Filled with 1.
CT_API Tensor ones(const Shape& shape, const TensorOptions& options = {});
/// Filled with `value`; its dtype is f32, i64 or bool as the value is, unless given. Throws ValueError for
/// NaN or a value out of range where the dtype is one of integers.
CT_API Tensor full(const Shape& shape, const Scalar& value, const TensorOptions& options = {});
/// A tensor of rank 0.
inline Tensor scalar(const Scalar& value, const TensorOptions& options = {}) {
  return full({}, value, options);
}

/// The same shape, dtype and device as `like`; none requires a gradient.
CT_API Tensor empty_like(const Tensor& like);
CT_API Tensor zeros_like(const Tensor& like);
CT_API Tensor ones_like(const Tensor& like);
CT_API Tensor full_like(const Tensor& like, const Scalar& value);

/// The identity matrix [rows, columns] (square if `columns` is left out).
CT_API Tensor eye(Integer rows, const TensorOptions& options = {});
CT_API Tensor eye(Integer rows, Integer columns, const TensorOptions& options = {});

// ---- sequences -------------------------------------------------------------------------------------------

/// start, start + step, ... up to but without `end`; computed as start + i * step in f64, or in i64 if all
/// three are integers (then the dtype is i64 unless given). Throws ValueError if step is 0, points away from
/// `end`, or a bound is not finite.
CT_API Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step,
                     const TensorOptions& options = {});
CT_API Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& options = {});
CT_API Tensor arange(const Scalar& end, const TensorOptions& options = {});
/// `count` values from `start` to `end`, both included, evenly spaced: the first half is counted from
/// `start`, the second from `end`, so that both are met exactly. Throws ValueError if count < 0.
CT_API Tensor linspace(Real start, Real end, Integer count, const TensorOptions& options = {});

// ---- random values ---------------------------------------------------------------------------------------
// Element i depends on the generator's state and i alone: all devices draw the same bits. Each call takes one
// draw from `generator`. The 16-bit types round the numbers that f32 would get (uniform ones towards 0, so
// that 1 is never reached).

/// Uniform on [0, 1).
CT_API Tensor rand(const Shape& shape, const TensorOptions& options = {},
                   Generator& generator = default_generator());
/// Standard normal.
CT_API Tensor randn(const Shape& shape, const TensorOptions& options = {},
                    Generator& generator = default_generator());
/// Uniform on [0, 1), of the shape, dtype and device of `like`.
CT_API Tensor rand_like(const Tensor& like, Generator& generator = default_generator());
/// Standard normal, of the shape, dtype and device of `like`.
CT_API Tensor randn_like(const Tensor& like, Generator& generator = default_generator());
/// Integers from [low, high), each with the same probability; i64 unless another dtype is given. Throws
/// ValueError if high <= low, or if the dtype does not hold all of them exactly (f16: beyond 2048).
CT_API Tensor randint(Integer low, Integer high, const Shape& shape, const TensorOptions& options = {},
                      Generator& generator = default_generator());
/// The numbers 0 ... n - 1 in random order; i64 unless another dtype is given. Sorted on the CPU, whatever
/// the device. Throws ValueError if n < 0 or the dtype does not hold n - 1 exactly, OutOfMemoryError.
CT_API Tensor randperm(Integer n, const TensorOptions& options = {},
                       Generator& generator = default_generator());

/// Overwrites a floating tensor with uniform values from [low, high). Throws AutogradError if `t` requires a
/// gradient while recording (use a NoGrad guard), ValueError if high < low, DTypeError for other dtypes.
CT_API Tensor& uniform_(Tensor& t, double low, double high, Generator& generator = default_generator());
/// Overwrites a floating tensor with normal values. Throws as uniform_, ValueError if std < 0.
CT_API Tensor& normal_(Tensor& t, double mean, double std, Generator& generator = default_generator());
/// Overwrites a floating tensor with values of the exponential distribution, rate e^(-rate x), which are above 0
/// unless 1 / rate underflows. Throws as uniform_, ValueError unless rate > 0.
CT_API Tensor& exponential_(Tensor& t, double rate = 1, Generator& generator = default_generator());

// ---- values from elsewhere -------------------------------------------------------------------------------

namespace detail {

/// `count` elements of dtype `source` at `data` (host memory), copied, converted and moved.
CT_API Tensor from_memory(const char* op, const void* data, DType source, std::int64_t count,
                          const Shape& shape, const TensorOptions& options);

// The element type with which a C++ number is stored.
template <class T>
using stored_t = std::conditional_t<
    std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) == 8, std::int64_t,
    std::conditional_t<std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 4, std::int32_t, T>>;

template <class T>
Tensor literal(const std::vector<T>& values, const Shape& shape, TensorOptions options) {
  static_assert(std::is_arithmetic_v<T>, "ct::tensor takes numbers and bools");
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double,
                                  std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, std::int64_t>>;
  const std::vector<Wide> wide(values.begin(), values.end());
  if (!options.dtype)
    options.dtype = std::is_floating_point_v<T> ? f32 : std::is_same_v<T, bool> ? boolean : i64;
  return from_memory("tensor", wide.data(), std::is_same_v<T, bool> ? u8 : dtype_of<Wide>,
                     static_cast<std::int64_t>(wide.size()), shape, options);
}

// Sizes and values of nested lists; all lists of one level must have the same length.
CT_API void check_list_length(std::size_t got, std::int64_t want);
template <class T>
void flatten_list(std::initializer_list<T> list, int level, Shape& shape, std::vector<T>& values) {
  if (level == shape.size()) shape.push_back(static_cast<std::int64_t>(list.size()));
  check_list_length(list.size(), shape[level]);
  values.insert(values.end(), list.begin(), list.end());
}
template <class T, class U>
void flatten_list(std::initializer_list<std::initializer_list<T>> list, int level, Shape& shape,
                  std::vector<U>& values) {
  if (level == shape.size()) shape.push_back(static_cast<std::int64_t>(list.size()));
  check_list_length(list.size(), shape[level]);
  for (const auto& inner : list) flatten_list(inner, level + 1, shape, values);
}
template <class T, class List>
Tensor nested(List list, const TensorOptions& options) {
  Shape shape;
  std::vector<T> values;
  flatten_list(list, 0, shape, values);
  return literal(values, shape, options);
}

}  // namespace detail

/// A tensor written out: `ct::tensor({{1.f, 2.f}, {3.f, 4.f}})`, up to four levels deep. Floating values
/// give f32, integers i64, bools bool, unless the dtype is given. Throws ShapeError if lists of one level
/// differ in length.
template <class T>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& options = {}) {
  return detail::nested<T>(values, options);
}
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> values, const TensorOptions& options = {}) {
  return detail::nested<T>(values, options);
}
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> values,
              const TensorOptions& options = {}) {
  return detail::nested<T>(values, options);
}
template <class T>
Tensor tensor(
    std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<T>>>> values,
    const TensorOptions& options = {}) {
  return detail::nested<T>(values, options);
}
/// A single number: a tensor of rank 0.
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(T value, const TensorOptions& options = {}) {
  return detail::literal(std::vector<T>{value}, {}, options);
}

/// The elements of `values` in row-major order, copied. The dtype is that of T (i64 for 64-bit integers,
/// i32 for int) unless given. Throws ShapeError if `shape` does not have values.size() elements.
template <class T>
Tensor from_span(std::span<const T> values, const Shape& shape, const TensorOptions& options = {}) {
  return detail::from_memory("from_span", values.data(), dtype_of<detail::stored_t<T>>,
                             static_cast<std::int64_t>(values.size()), shape, options);
}
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape, const TensorOptions& options = {}) {
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<std::uint8_t> bytes(values.begin(), values.end());
    TensorOptions typed = options;
    if (!typed.dtype) typed.dtype = boolean;
    return detail::from_memory("from_vector", bytes.data(), u8, static_cast<std::int64_t>(bytes.size()),
                               shape, typed);
  } else {
    return detail::from_memory("from_vector", values.data(), dtype_of<detail::stored_t<T>>,
                               static_cast<std::int64_t>(values.size()), shape, options);
  }
}
/// A vector of rank 1.
template <class T>
Tensor from_vector(const std::vector<T>& values, const TensorOptions& options = {}) {
  return from_vector(values, Shape{static_cast<std::int64_t>(values.size())}, options);
}

/// A tensor over memory that somebody else owns, on options.device, without a copy. `release` is called when
/// the last view is gone (it may be empty: then the memory must outlive all views). Throws ShapeError if
/// sizes are negative or `strides` (in elements, >= 0) do not match the rank, ValueError for a null pointer
/// to a tensor that is not empty.
CT_API Tensor from_blob(void* data, const Shape& shape, const TensorOptions& options = {},
                        std::function<void()> release = {});
CT_API Tensor from_blob(void* data, const Shape& shape, const Strides& strides,
                        const TensorOptions& options = {}, std::function<void()> release = {});
/// A tensor hands out its memory for writing, so it can't stand over const memory: from_span() makes a copy.
template <class T>
requires std::is_const_v<T> Tensor from_blob(T* data, const Shape& shape, const TensorOptions& options = {},
                                             std::function<void()> release = {})
= delete;  // use from_span()
template <class T>
requires std::is_const_v<T> Tensor from_blob(T* data, const Shape& shape, const Strides& strides,
                                             const TensorOptions& options = {},
                                             std::function<void()> release = {})
= delete;  // use from_span()

}  // namespace ct
