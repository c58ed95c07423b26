#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/base/scalar.h>
#include <cotangent/core/tensor/tensor.h>

// New tensors. All functions throw ShapeError for a negative size, DeviceError for a device that is not
// there and DTypeError for a gradient on a dtype that has none; further errors are named with each function.

namespace ct {

/// Device and dtype of a new tensor: `ct::zeros({2, 3}, {.dtype = ct::f64, .device = device})`.
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

template <class T>
concept Element = Number<T> || std::same_as<T, bool> || std::same_as<T, Half> || std::same_as<T, BFloat16>;
// The element type that holds every value of a C++ number. (Of 64 bits without sign: those up to 2^63 - 1.)
template <Element T>
using stored_t = std::conditional_t<
    ElementType<T>, T,
    std::conditional_t<std::is_floating_point_v<T>, double,
                       std::conditional_t<sizeof(T) < 4 || (sizeof(T) == 4 && std::is_signed_v<T>),
                                          std::int32_t, std::int64_t>>>;

/// Throws ValueError for a number above 2^63 - 1.
CT_API void check_whole(const char* op, std::uint64_t value);
/// Throws ShapeError unless the lists of one level have one length.
CT_API void check_list_length(std::size_t got, std::int64_t want);

// Lists of numbers, or of such lists: vectors, spans, arrays. A text is none, nor is what holds things of its own type.
template <class T>
using item_t = std::iter_value_t<decltype(std::begin(std::declval<const T&>()))>;
template <class T>
struct ListOf {
  static constexpr bool numbers = false;
};
template <class T>
requires(!std::same_as<item_t<T>, T> && Element<item_t<T>>) struct ListOf<T> {
  static constexpr bool numbers = true;
  using Number = item_t<T>;
};
template <class T>
requires(!std::same_as<item_t<T>, T> && ListOf<item_t<T>>::numbers) struct ListOf<T> : ListOf<item_t<T>> {
};
template <class T>
concept NumberList = ListOf<T>::numbers;

template <NumberList T, class Kept>
void collect_numbers(const char* op, const T& list, int level, Shape& shape, std::vector<Kept>& values) {
  if (level == shape.size()) shape.push_back(static_cast<std::int64_t>(std::size(list)));
  check_list_length(std::size(list), shape[level]);
  for (const auto& item : list) {
    if constexpr (NumberList<item_t<T>>) {
      collect_numbers(op, item, level + 1, shape, values);
    } else {
      if constexpr (std::unsigned_integral<item_t<T>> && sizeof(Kept) == 8) check_whole(op, item);
      values.push_back(static_cast<Kept>(item));
    }
  }
}

template <class T>
concept Viewable = requires(const T& values) {
  std::span(values);
};

/// A number, or a list in braces of such: what tensor({1, 2.5}) is given. It refers to the lists, and is for parameters
/// only.
class Literal {
 public:
  template <std::convertible_to<Scalar> T>
  Literal(T value) : number_(value) {}
  Literal(std::initializer_list<Literal> list)
      : items_(std::data(list)), count_(static_cast<std::int64_t>(list.size())) {}

  bool is_list() const { return count_ >= 0; }
  std::span<const Literal> items() const { return {items_, static_cast<std::size_t>(count_)}; }
  const Scalar& number() const { return number_; }

 private:
  Scalar number_;
  const Literal* items_ = nullptr;
  std::int64_t count_ = -1;
};

// Arguments that may replace options, in this order: a dtype, a device; sizes come before them.
template <class T>
inline constexpr int written_order = std::same_as<T, DType> || std::same_as<T, TensorOptions> ? 1
                                     : std::same_as<T, Device>                                ? 2
                                     : StandsFor<T, std::int64_t>                             ? 0
                                                                                              : -1;
template <class... T>
constexpr bool in_order(bool sizes) {
  int last = sizes ? 0 : 1, count[] = {0, 0, 0};
  for (const int order : std::initializer_list<int>{written_order<T>...}) {
    if (order < last || (order > 0 && count[order]++ > 0)) return false;
    last = order;
  }
  return true;
}
template <class... T>
concept Kind = sizeof...(T) > 0 && in_order<T...>(false);
template <class... T>
concept SizesAndKind = in_order<T...>(true);

struct Written {
  Shape shape;
  TensorOptions options;

  template <class... T>
  explicit Written(const T&... all) {
    (take(all), ...);
  }
  void take(Integer size) { shape.push_back(size); }
  void take(DType dtype) { options.dtype = dtype; }
  void take(Device device) { options.device = device; }
  void take(const TensorOptions& all) { options = all; }
};

}  // namespace detail

/// A tensor written out: `ct::tensor({{1, 2.5}, {3, 4}})`, or a single number, of rank 0. Floating values, or one of them
/// among others, give f32, integers i64, bools bool, unless the dtype is given. Throws ShapeError if lists of one level
/// differ in length.
CT_API Tensor tensor(const detail::Literal& values, const TensorOptions& options = {});
/// A copy of the numbers of a vector, span, array or other list, or of lists of them, with dtypes as above. Throws
/// ShapeError as above, ValueError for a whole number above 2^63 - 1.
template <detail::NumberList List>
Tensor tensor(const List& values, TensorOptions options = {}) {
  using T = typename detail::ListOf<List>::Number;
  using Kept = std::conditional_t<std::same_as<T, bool>, std::uint8_t, detail::stored_t<T>>;
  Shape shape;
  std::vector<Kept> kept;
  detail::collect_numbers("tensor", values, 0, shape, kept);
  if (!options.dtype) options.dtype = !std::is_integral_v<T> ? f32 : std::same_as<T, bool> ? boolean : i64;
  return detail::from_memory("tensor", kept.data(), dtype_of<Kept>, static_cast<std::int64_t>(kept.size()),
                             shape, options);
}

/// The elements of `values` in row-major order, copied. The dtype is that of T unless given; of a C++ number that no
/// dtype has it is the narrowest that holds it: i32 for 8 and 16 bits, i64 for 32 bits without sign and for all of 64.
/// Throws ShapeError if `shape` does not have values.size() elements, ValueError for a number above 2^63 - 1.
template <class T>
Tensor from_span(std::span<const T> values, const Shape& shape, const TensorOptions& options = {}) {
  static_assert(detail::Element<T>, "tensors hold numbers, bools, ct::Half and ct::BFloat16");
  if constexpr (ElementType<T>) {
    return detail::from_memory("from_span", values.data(), dtype_of<T>,
                               static_cast<std::int64_t>(values.size()), shape, options);
  } else {
    std::vector<detail::stored_t<T>> kept;
    Shape flat;
    detail::collect_numbers("from_span", values, 0, flat, kept);
    return from_span(std::span<const detail::stored_t<T>>(kept), shape, options);
  }
}
/// The same of what a std::span can be made of.
template <detail::Viewable Range>
Tensor from_span(const Range& values, const Shape& shape, const TensorOptions& options = {}) {
  using T = std::remove_cv_t<typename decltype(std::span(values))::element_type>;
  return from_span<T>(std::span<const T>(values), shape, options);
}
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape, const TensorOptions& options = {}) {
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<std::uint8_t> bytes(values.begin(), values.end());
    TensorOptions typed = options;
    if (!typed.dtype) typed.dtype = boolean;
    return from_vector(bytes, shape, typed);
  } else {
    return from_span<T>(values, shape, options);
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

// ---- shorter -----------------------------------------------------------------------------------------------
// A dtype, a device, or both in this order stand in place of options: zeros({2, 3}, f64), randint(0, 9, {2}, i32, device).
// Where a shape comes first, its sizes may be written one by one: randn(2, 3), ones(2, 3, f64).

#define CT_WITH_KIND(name, parameters, ...)                     \
  template <class... More>                                      \
  requires detail::Kind<More...> Tensor name parameters {       \
    return name(__VA_ARGS__, detail::Written(more...).options); \
  }
#define CT_OF_SIZES(name)                                                                                 \
  CT_WITH_KIND(name, (const Shape& shape, const More&... more), shape)                                    \
  template <class... More>                                                                                \
  requires detail::SizesAndKind<More...> Tensor name(Integer size0, Integer size1, const More&... more) { \
    const detail::Written written(size0, size1, more...);                                                 \
    return name(written.shape, written.options);                                                          \
  }
CT_OF_SIZES(empty)
CT_OF_SIZES(zeros)
CT_OF_SIZES(ones)
CT_OF_SIZES(rand)
CT_OF_SIZES(randn)
CT_WITH_KIND(full, (const Shape& shape, const Scalar& value, const More&... more), shape, value)
CT_WITH_KIND(scalar, (const Scalar& value, const More&... more), value)
CT_WITH_KIND(eye, (Integer rows, const More&... more), rows)
CT_WITH_KIND(eye, (Integer rows, Integer columns, const More&... more), rows, columns)
CT_WITH_KIND(arange, (const Scalar& end, const More&... more), end)
CT_WITH_KIND(arange, (const Scalar& start, const Scalar& end, const More&... more), start, end)
CT_WITH_KIND(arange, (const Scalar& start, const Scalar& end, const Scalar& step, const More&... more), start,
             end, step)
CT_WITH_KIND(linspace, (Real start, Real end, Integer count, const More&... more), start, end, count)
CT_WITH_KIND(randint, (Integer low, Integer high, const Shape& shape, const More&... more), low, high, shape)
CT_WITH_KIND(randperm, (Integer n, const More&... more), n)
CT_WITH_KIND(tensor, (const detail::Literal& values, const More&... more), values)
CT_WITH_KIND(from_blob, (void* data, const Shape& shape, const More&... more), data, shape)
CT_WITH_KIND(from_blob, (void* data, const Shape& shape, const Strides& strides, const More&... more), data,
             shape, strides)
#undef CT_OF_SIZES
#undef CT_WITH_KIND
template <detail::NumberList List, class... More>
requires detail::Kind<More...> Tensor tensor(const List& values, const More&... more) {
  return tensor(values, detail::Written(more...).options);
}
template <class T, class... More>
requires detail::Kind<More...> Tensor from_vector(const std::vector<T>& values, const More&... more) {
  return from_vector(values, detail::Written(more...).options);
}
template <class T, class... More>
requires detail::Kind<More...> Tensor from_vector(const std::vector<T>& values, const Shape& shape,
                                                  const More&... more) {
  return from_vector(values, shape, detail::Written(more...).options);
}
template <class List, class... More>
requires detail::Kind<More...> Tensor from_span(const List& values, const Shape& shape, const More&... more) {
  return from_span(values, shape, detail::Written(more...).options);
}

}  // namespace ct
