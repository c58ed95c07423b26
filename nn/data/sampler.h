#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/number.h>

// Samplers: which examples an epoch has, and in which order. A loader by itself takes each once, in the dataset's order
// or shuffled; with LoaderOptions::sampler it takes what that says. Everything here is a function of a seed and the
// number of the epoch, so that a resumed run goes on as the uninterrupted one.

namespace ct::data {

/// Examples by number: size() of them in an epoch, which are order(epoch). For samplers of one's own.
template <class S>
concept Sampler = requires(const S& s, std::int64_t epoch) {
  { s.size() } -> std::convertible_to<std::int64_t>;
  { s.order(epoch) } -> std::same_as<std::vector<std::int64_t>>;
};

/// Any Sampler.
class CT_API AnySampler {
 public:
  template <Sampler S>
  requires(!std::same_as<S, AnySampler>) AnySampler(S sampler) : size_(sampler.size()) {
    if constexpr (requires { sampler.num_replicas(); }) replicas_ = sampler.num_replicas();
    order_ = [s = std::move(sampler)](std::int64_t epoch) { return s.order(epoch); };
  }
  std::int64_t size() const { return size_; }
  std::vector<std::int64_t> order(std::int64_t epoch) const { return order_(epoch); }
  /// The ranks that share the examples out among them: num_replicas() of the sampler, if it has that.
  std::int64_t num_replicas() const { return replicas_; }

 private:
  std::int64_t size_, replicas_ = 1;
  std::function<std::vector<std::int64_t>(std::int64_t)> order_;
};

struct RandomSamplerOptions {
  bool replacement = false;
  std::optional<std::int64_t> num_samples =
      std::nullopt;  ///< of an epoch; else as many as there are examples
  std::uint64_t seed = 0;
};
/// Examples drawn uniformly, as torch.utils.data.RandomSampler. Without replacement every example comes once before one
/// comes again.
class CT_API RandomSampler {
 public:
  /// Throws ValueError for a negative size or number, or for samples of no examples.
  explicit RandomSampler(Integer size, RandomSamplerOptions options = {});
  std::int64_t size() const { return options_.num_samples.value_or(examples_); }
  std::vector<std::int64_t> order(std::int64_t epoch) const;

 private:
  std::int64_t examples_;
  RandomSamplerOptions options_;
};

struct WeightedRandomSamplerOptions {
  bool replacement = true;
  std::uint64_t seed = 0;
};
/// Examples drawn with probabilities in proportion to their weights, as torch.utils.data.WeightedRandomSampler: the
/// rare class as often as the frequent one.
class CT_API WeightedRandomSampler {
 public:
  /// Throws ValueError for weights that are negative, not finite or all 0, for a negative number, and, without
  /// replacement, for more samples than there are weights above 0.
  WeightedRandomSampler(std::vector<double> weights, Integer num_samples,
                        WeightedRandomSamplerOptions options = {});
  std::int64_t size() const { return count_; }
  std::vector<std::int64_t> order(std::int64_t epoch) const;

 private:
  std::vector<double> weights_;  // with replacement: their sums so far
  std::int64_t count_;
  WeightedRandomSamplerOptions options_;
};

struct DistributedSamplerOptions {
  std::int64_t num_replicas = 1;
  std::int64_t rank = 0;
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< the same for all ranks
  /// Leaves out the rest that does not give each rank one example; else examples from the start fill it up.
  bool drop_last = false;
};
/// The share of one of several processes that train together, as torch.utils.data.DistributedSampler: examples rank,
/// rank + num_replicas, ... of an order that all have in common. Nothing is communicated. The state of a loader with it counts
/// the examples of all ranks: another number of ranks with the same batch of all together, and the same `seed` of the loader, goes on
/// with the same batches.
class CT_API DistributedSampler {
 public:
  /// Throws ValueError for a negative size, num_replicas < 1, or a rank outside [0, num_replicas).
  explicit DistributedSampler(Integer size, DistributedSamplerOptions options = {});
  std::int64_t size() const;
  std::int64_t num_replicas() const { return options_.num_replicas; }
  std::vector<std::int64_t> order(std::int64_t epoch) const;

 private:
  std::int64_t examples_;
  DistributedSamplerOptions options_;
};

/// The numbers 0, ..., size - 1 in disjoint lists: the lengths, or if they sum up to 1 the shares, of these. Numbers
/// left over by rounding shares go to the first lists, one each. Throws ValueError for lengths that are negative or not
/// whole, or have another sum.
CT_API std::vector<std::vector<std::int64_t>> random_split_indices(Integer size,
                                                                   std::span<const Real> lengths,
                                                                   std::uint64_t seed);

}  // namespace ct::data
