#include <cotangent/nn/data/sampler.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/base/error.h>
#include <cotangent/core/base/philox.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/nn/data/loader_internal.h>

namespace ct::data {
namespace {

// Keep the draws of samplers apart from those of a loader or a default generator with the same seed.
constexpr std::uint64_t kSampleStream = 0x5A3B1E5C0F21ull, kSplitStream = 0x5B117A2C90D3ull;

void check_count(const char* op, const char* what, std::int64_t count) {
  CT_CHECK(count >= 0, ValueError, op, what, " is ", count, "; it must be >= 0");
}

GeneratorState draw_of(std::uint64_t seed, std::int64_t epoch) {
  return {seed ^ kSampleStream, static_cast<std::uint64_t>(epoch)};
}

std::vector<std::int64_t> empty_list(const char* op, std::int64_t room) {
  std::vector<std::int64_t> list;
  ct::detail::reserve(op, list, room);
  return list;
}

}  // namespace

RandomSampler::RandomSampler(Integer size, RandomSamplerOptions options)
    : examples_(size), options_(options) {
  constexpr char op[] = "RandomSampler";
  check_count(op, "size", examples_);
  check_count(op, "num_samples", this->size());
  CT_CHECK(examples_ > 0 || this->size() == 0, ValueError, op, "num_samples is ", this->size(),
           ", and there are no examples; a dataset with some is needed");
}

std::vector<std::int64_t> RandomSampler::order(std::int64_t epoch) const {
  const std::int64_t count = size();
  std::vector<std::int64_t> list = empty_list("RandomSampler", count);
  if (options_.replacement) {
    const GeneratorState draw = draw_of(options_.seed, epoch);
    for (std::int64_t i = 0; i < count; ++i)
      list.push_back(philox_integer(draw, static_cast<std::uint64_t>(i), 0, examples_));
    return list;
  }
  for (std::uint64_t round = 0; static_cast<std::int64_t>(list.size()) < count; ++round) {
    const auto next = detail::shuffled(examples_, options_.seed ^ kSampleStream ^ round << 48, epoch);
    const std::int64_t missing = count - static_cast<std::int64_t>(list.size());
    list.insert(list.end(), next.begin(), next.begin() + std::min(missing, examples_));
  }
  return list;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, Integer num_samples,
                                             WeightedRandomSamplerOptions options)
    : weights_(std::move(weights)), count_(num_samples), options_(options) {
  constexpr char op[] = "WeightedRandomSampler";
  check_count(op, "num_samples", count_);
  std::int64_t positive = 0;
  for (const double w : weights_) {
    ct::detail::check_not_negative(op, "a weight", w);
    positive += w > 0 ? 1 : 0;
  }
  const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  CT_CHECK(std::isfinite(sum) && (positive > 0 || count_ == 0), ValueError, op, "the weights sum up to ", sum,
           "; the sum must be finite and > 0");
  CT_CHECK(options_.replacement || count_ <= positive, ValueError, op, "num_samples is ", count_, ", and ",
           positive, " weights are above 0; without replacement no example comes twice");
  if (options_.replacement) std::partial_sum(weights_.begin(), weights_.end(), weights_.begin());
}

std::vector<std::int64_t> WeightedRandomSampler::order(std::int64_t epoch) const {
  constexpr char op[] = "WeightedRandomSampler";
  const GeneratorState draw = draw_of(options_.seed, epoch);
  if (options_.replacement) {
    std::vector<std::int64_t> list = empty_list(op, count_);
    for (std::int64_t i = 0; i < count_; ++i) {
      const double at = philox_uniform<double>(draw, static_cast<std::uint64_t>(i)) * weights_.back();
      // Rounding may give the whole sum, which is beyond the last example with a weight.
      auto found = std::upper_bound(weights_.begin(), weights_.end(), at);
      if (found == weights_.end())
        found = std::lower_bound(weights_.begin(), weights_.end(), weights_.back());
      list.push_back(found - weights_.begin());
    }
    return list;
  }
  // Each example waits for an exponential time of rate w; the first to come are a sample without replacement
  // (Efraimidis and Spirakis, 2006).
  std::vector<double> times(weights_.size());
  std::vector<std::int64_t> list = empty_list(op, static_cast<std::int64_t>(weights_.size()));
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    times[i] = exponential_from(philox_word64(draw, i)) / weights_[i];
    if (weights_[i] > 0) list.push_back(static_cast<std::int64_t>(i));
  }
  const auto earlier = [&](std::int64_t a, std::int64_t b) {
    return std::pair(times[static_cast<std::size_t>(a)], a) <
           std::pair(times[static_cast<std::size_t>(b)], b);
  };
  std::partial_sort(list.begin(), list.begin() + count_, list.end(), earlier);
  list.resize(static_cast<std::size_t>(count_));
  return list;
}

DistributedSampler::DistributedSampler(Integer size, DistributedSamplerOptions options)
    : examples_(size), options_(options) {
  constexpr char op[] = "DistributedSampler";
  check_count(op, "size", examples_);
  CT_CHECK(options.num_replicas >= 1, ValueError, op, "num_replicas is ", options.num_replicas,
           "; it must be >= 1");
  CT_CHECK(options.rank >= 0 && options.rank < options.num_replicas, ValueError, op, "rank is ", options.rank,
           "; it must lie in [0, ", options.num_replicas, ')');
}

std::int64_t DistributedSampler::size() const {
  const bool more = !options_.drop_last && examples_ % options_.num_replicas != 0;
  return examples_ / options_.num_replicas + (more ? 1 : 0);
}

std::vector<std::int64_t> DistributedSampler::order(std::int64_t epoch) const {
  constexpr char op[] = "DistributedSampler";
  std::vector<std::int64_t> all;
  if (options_.shuffle) all = detail::shuffled(examples_, options_.seed ^ kSampleStream, epoch);
  std::vector<std::int64_t> list = empty_list(op, size());
  for (std::int64_t i = 0; i < size(); ++i) {
    const std::int64_t at = (i * options_.num_replicas + options_.rank) % examples_;
    list.push_back(options_.shuffle ? all[static_cast<std::size_t>(at)] : at);
  }
  return list;
}

std::vector<std::vector<std::int64_t>> random_split_indices(Integer size, std::span<const Real> lengths,
                                                            std::uint64_t seed) {
  constexpr char op[] = "random_split";
  const std::int64_t count = size;
  check_count(op, "size", count);
  double sum = 0;
  bool whole = true;
  for (const double length : lengths) {
    ct::detail::check_not_negative(op, "a length", length);
    sum += length;
    whole = whole && length == std::floor(length);
  }
  whole = whole && sum == static_cast<double>(count);
  CT_CHECK(whole || std::abs(sum - 1) <= 1e-9, ValueError, op, "got lengths whose sum is ", sum, " for ",
           count, " examples; they must be whole and have that sum, or be shares with the sum 1");
  std::vector<std::int64_t> sizes;
  std::int64_t left = count;
  for (const double length : lengths) {
    sizes.push_back(
        static_cast<std::int64_t>(whole ? length : std::floor(static_cast<double>(count) * length)));
    left -= sizes.back();
  }
  for (std::size_t i = 0; left > 0; ++i, --left) ++sizes[i % sizes.size()];
  const std::vector<std::int64_t> order = detail::shuffled(count, seed ^ kSplitStream, 0);
  std::vector<std::vector<std::int64_t>> lists;
  auto at = order.begin();
  for (const std::int64_t n : sizes) {
    lists.emplace_back(at, at + n);
    at += n;
  }
  return lists;
}

}  // namespace ct::data
