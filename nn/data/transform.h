#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/base/function_ref.h>
#include <cotangent/nn/data/dataset.h>
#include <cotangent/nn/data/sampler.h>

// Datasets made of datasets. Each is a dataset itself, so they go into one another and into a DataLoader:
//
//     auto parts = ct::data::random_split(digits, {0.9, 0.1}, 42);
//     auto train = ct::data::map(parts[0], [](auto example) { ... });

namespace ct::data {

namespace detail {
/// Place of example i among concatenated datasets, which end at `ends`: the dataset's number, and the example's number
/// in it.
CT_API std::pair<std::size_t, std::int64_t> place_in(const std::vector<std::int64_t>& ends, std::int64_t i);
/// A batch of concatenated datasets' examples; get_batch(d, rows) loads those of dataset d.
CT_API std::vector<Tensor> join_batches(
    const std::vector<std::int64_t>& ends, std::span<const std::int64_t> indices,
    FunctionRef<std::vector<Tensor>(std::size_t d, std::span<const std::int64_t> rows)> get_batch);
}  // namespace detail

/// A dataset with f applied to each example: f(example), or f(example, i) with the example's number, from which a
/// random change can be drawn that does not depend on the loader's threads. With several workers f is called by
/// several threads at once.
template <ExampleDataset D, class F>
class MapDataset {
 public:
  MapDataset(D dataset, F function) : dataset_(std::move(dataset)), function_(std::move(function)) {}
  std::int64_t size() const { return dataset_.size(); }
  auto get(std::int64_t i) const {
    if constexpr (std::is_invocable_v<const F&, detail::Example<D>, std::int64_t>) {
      return function_(dataset_.get(i), i);
    } else {
      return function_(dataset_.get(i));
    }
  }

 private:
  D dataset_;
  F function_;
};
template <ExampleDataset D, class F>
requires std::is_invocable_v<const F&, detail::Example<D>> ||
    std::is_invocable_v<const F&, detail::Example<D>, std::int64_t>
        MapDataset<D, F> map(D dataset, F function) {
  return {std::move(dataset), std::move(function)};
}

/// See CollateDataset (dataset.h).
template <class D, class F>
requires std::is_invocable_v<const F&, std::vector<detail::Example<D>>> CollateDataset<D, F> collate(
    D dataset, F function) {
  return {std::move(dataset), std::move(function)};
}

/// Datasets of one type, one after the other.
template <Dataset D>
class ConcatDataset {
 public:
  /// Throws ValueError without datasets.
  explicit ConcatDataset(std::vector<D> datasets) : datasets_(std::move(datasets)) {
    CT_CHECK(!datasets_.empty(), ValueError, "ConcatDataset", "got no datasets; pass at least one");
    for (const D& d : datasets_) ends_.push_back(size() + d.size());
  }
  std::int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  auto get(std::int64_t i) const requires ExampleDataset<D> {
    const auto [d, at] = detail::place_in(ends_, i);
    return datasets_[d].get(at);
  }
  auto get_batch(std::span<const std::int64_t> indices) const requires BatchDataset<D> {
    using Batch = std::remove_cvref_t<decltype(datasets_[0].get_batch(indices))>;
    return detail::TensorsOf<Batch>::batch(
        detail::join_batches(ends_, indices, [this](std::size_t d, std::span<const std::int64_t> rows) {
          return detail::TensorsOf<Batch>::list(datasets_[d].get_batch(rows));
        }));
  }

 private:
  std::vector<D> datasets_;
  std::vector<std::int64_t> ends_;
};

/// A dataset cut at random into parts of these lengths, or shares: random_split(digits, {0.9, 0.1}, seed). The cut is a
/// function of the seed. Throws ValueError for lengths that are negative or not whole, or whose sum is neither the size
/// nor 1.
template <Dataset D>
std::vector<Subset<D>> random_split(const D& dataset, const std::vector<Real>& lengths,
                                    std::uint64_t seed = 0) {
  std::vector<Subset<D>> parts;
  for (auto& list : random_split_indices(dataset.size(), lengths, seed))
    parts.emplace_back(dataset, std::move(list));
  return parts;
}

}  // namespace ct::data
