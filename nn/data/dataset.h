#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct::data {

// ---- Examples and batches ---------------------------------------------------------------------------------
// An example, and a batch of them, is a Tensor, or a std::pair, std::tuple, std::array or std::vector of
// tensors.

namespace detail {

template <class B>
struct TensorsOf;  // how a batch turns into a list of tensors and back

template <>
struct TensorsOf<Tensor> {
  static std::vector<Tensor> list(Tensor t) { return {std::move(t)}; }
  static Tensor batch(std::vector<Tensor>&& list) { return std::move(list[0]); }
};
template <>
struct TensorsOf<std::vector<Tensor>> {
  static std::vector<Tensor> list(std::vector<Tensor> t) { return t; }
  static std::vector<Tensor> batch(std::vector<Tensor>&& list) { return std::move(list); }
};
template <std::size_t N>
struct TensorsOf<std::array<Tensor, N>> {
  static std::vector<Tensor> list(std::array<Tensor, N> t) { return {t.begin(), t.end()}; }
  static std::array<Tensor, N> batch(std::vector<Tensor>&& list) {
    std::array<Tensor, N> t;
    for (std::size_t i = 0; i < N; ++i) t[i] = std::move(list[i]);
    return t;
  }
};
template <class B, std::size_t N>
struct TupleOfTensors {
  static std::vector<Tensor> list(const B& t) {
    return std::apply([](const auto&... tensors) { return std::vector<Tensor>{tensors...}; }, t);
  }
  static B batch(std::vector<Tensor>&& list) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) { return B(std::move(list[I])...); }
    (std::make_index_sequence<N>());
  }
};
template <>
struct TensorsOf<std::pair<Tensor, Tensor>> : TupleOfTensors<std::pair<Tensor, Tensor>, 2> {};
template <std::same_as<Tensor>... T>
struct TensorsOf<std::tuple<T...>> : TupleOfTensors<std::tuple<T...>, sizeof...(T)> {};

/// indices[i] for each i of `rows`.
CT_API std::vector<std::int64_t> chosen(const std::vector<std::int64_t>& indices,
                                        std::span<const std::int64_t> rows);

template <class B>
concept Batch = requires(B b) {
  TensorsOf<std::remove_cvref_t<B>>::list(b);
};

}  // namespace detail

/// Examples by number: size() and get(i), which gives one example; the loader stacks them to batches.
template <class D>
concept ExampleDataset = requires(const D& d, std::int64_t i) {
  { d.size() } -> std::convertible_to<std::int64_t>;
  { d.get(i) } -> detail::Batch;
};
/// The same with get_batch(indices), which gives a whole batch at once and is used where it exists.
template <class D>
concept BatchDataset = requires(const D& d, std::span<const std::int64_t> indices) {
  { d.size() } -> std::convertible_to<std::int64_t>;
  { d.get_batch(indices) } -> detail::Batch;
};
/// A dataset that a DataLoader loads from. With several workers get() or get_batch() is called by several threads at
/// once.
template <class D>
concept Dataset = ExampleDataset<D> || BatchDataset<D>;

/// A CPU tensor for a batch under construction: uninitialised, and in pinned memory where the loader that
/// asks uploads to a GPU. For get_batch() of one's own.
CT_API Tensor allocate_batch(const Shape& shape, DType dtype);
/// Rows of `source` (its first axis) by number. Throws IndexError out of range.
CT_API Tensor gather_rows(const Tensor& source, std::span<const std::int64_t> rows);
/// Tensors of one shape and dtype, stacked along a new first axis. Throws ShapeError or DTypeError.
CT_API Tensor stack_examples(TensorList examples);

namespace detail {
/// The type that get() of a dataset returns.
template <class D>
using Example = std::remove_cvref_t<decltype(std::declval<const D&>().get(0))>;
}  // namespace detail

/// Batches put together by a function of the list of their examples, f(std::vector<Example>), in place of stacking:
/// to pad texts to one length, say. Examples may be of any type. collate(dataset, f) and DataLoader(dataset, options, f) make one.
template <class D, class F>
class CollateDataset {
 public:
  CollateDataset(D dataset, F function) : dataset_(std::move(dataset)), function_(std::move(function)) {}
  std::int64_t size() const { return dataset_.size(); }
  auto get_batch(std::span<const std::int64_t> indices) const {
    std::vector<detail::Example<D>> examples;
    examples.reserve(indices.size());
    for (const std::int64_t i : indices) examples.push_back(dataset_.get(i));
    return function_(std::move(examples));
  }

 private:
  D dataset_;
  F function_;
};

/// Tensors whose first axes belong together: images and labels.
///
///     ct::data::TensorDataset data(images, labels);   // batches are std::array<Tensor, 2>
template <std::size_t N>
class TensorDataset {
 public:
  /// Throws ShapeError unless all tensors have a first axis of the same size.
  template <std::same_as<Tensor>... T>
  requires(sizeof...(T) == N) explicit TensorDataset(T... tensors) : tensors_{std::move(tensors)...} {
    for (const Tensor& t : tensors_)
      CT_CHECK(t.dim() > 0 && t.shape()[0] == tensors_[0].shape()[0], ShapeError, "TensorDataset", "got ",
               describe(tensors_[0]), " and ", describe(t),
               "; the first axis counts the examples in all tensors");
  }
  std::int64_t size() const { return tensors_[0].shape()[0]; }
  std::array<Tensor, N> get(std::int64_t i) const {
    std::array<Tensor, N> example;
    for (std::size_t k = 0; k < N; ++k) example[k] = tensors_[k].select(0, i);
    return example;
  }
  std::array<Tensor, N> get_batch(std::span<const std::int64_t> indices) const {
    std::array<Tensor, N> batch;
    for (std::size_t k = 0; k < N; ++k) batch[k] = gather_rows(tensors_[k], indices);
    return batch;
  }
  const std::array<Tensor, N>& tensors() const { return tensors_; }

 private:
  std::array<Tensor, N> tensors_;
};
template <std::same_as<Tensor>... T>
TensorDataset(T...) -> TensorDataset<sizeof...(T)>;

/// The examples of another dataset with these numbers, in this order.
template <Dataset D>
class Subset {
 public:
  /// Throws IndexError if a number is out of range.
  Subset(D dataset, std::vector<std::int64_t> indices)
      : dataset_(std::move(dataset)), indices_(std::move(indices)) {
    for (std::int64_t i : indices_)
      CT_CHECK(i >= 0 && i < dataset_.size(), IndexError, "Subset", "index ", i,
               " is out of range; it must lie in [0, ", dataset_.size(), ')');
  }
  std::int64_t size() const { return static_cast<std::int64_t>(indices_.size()); }
  auto get(std::int64_t i) const requires ExampleDataset<D> {
    return dataset_.get(indices_.at(static_cast<std::size_t>(i)));
  }
  auto get_batch(std::span<const std::int64_t> rows) const requires BatchDataset<D> {
    return dataset_.get_batch(detail::chosen(indices_, rows));
  }

 private:
  D dataset_;
  std::vector<std::int64_t> indices_;
};

}  // namespace ct::data
