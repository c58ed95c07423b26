#include <cotangent/nn/data/sampler.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <cotangent/nn/data/loader.h>
#include <cotangent/nn/data/tokens.h>
#include <cotangent/nn/data/transform.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::tensor_of;
using List = std::vector<std::int64_t>;

namespace {

// Examples {i, 10 i} for i in [first, first + count).
struct Count {  // one by one
  std::int64_t first = 0, count = 0;
  std::int64_t size() const { return count; }
  std::pair<Tensor, Tensor> get(std::int64_t i) const {
    return {tensor_of<std::int64_t>({}, {first + i}),
            tensor_of<std::int64_t>({2}, {first + i, 10 * (first + i)})};
  }
};
data::TensorDataset<1> batches_of(std::int64_t first, std::int64_t count) {
  List values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return data::TensorDataset(tensor_of<std::int64_t>({count}, values));
}

template <class Loader>
List numbers_of(Loader& loader) {
  List all;
  for (const auto& batch : loader)
    for (const std::int64_t i : batch[0].template to_vector<std::int64_t>()) all.push_back(i);
  return all;
}
List sorted(List list) {
  std::ranges::sort(list);
  return list;
}
List iota(std::int64_t count) {
  List list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

}  // namespace

TEST_CASE("RandomSampler draws with and without replacement", "[data][sampler]") {
  const data::RandomSampler plain(10, {.seed = 1});
  CHECK(plain.size() == 10);
  CHECK(sorted(plain.order(0)) == iota(10));
  CHECK(plain.order(0) == plain.order(0));
  CHECK(plain.order(0) != plain.order(1));
  CHECK(plain.order(0) != data::RandomSampler(10, {.seed = 2}).order(0));

  // More than there are: each comes twice before one comes a third time, in another order.
  const List many = data::RandomSampler(10, {.num_samples = 25}).order(0);
  REQUIRE(many.size() == 25);
  const List one(many.begin(), many.begin() + 10), two(many.begin() + 10, many.begin() + 20);
  CHECK(sorted(one) == iota(10));
  CHECK(sorted(two) == iota(10));
  CHECK(one != two);

  const List drawn = data::RandomSampler(4, {.replacement = true, .num_samples = 4000, .seed = 7}).order(3);
  REQUIRE(drawn.size() == 4000);
  for (std::int64_t k = 0; k < 4; ++k) {
    const auto count = static_cast<double>(std::ranges::count(drawn, k));
    CHECK(std::abs(count - 1000) < 5 * std::sqrt(4000 * 0.25 * 0.75));
  }
  CHECK(data::RandomSampler(0).order(0).empty());
  CHECK_THROWS_AS(data::RandomSampler(-1), ValueError);
  CHECK_THROWS_AS(data::RandomSampler(0, {.num_samples = 1}), ValueError);
  CHECK_THROWS_AS(data::RandomSampler(3, {.num_samples = -1}), ValueError);
}

TEST_CASE("WeightedRandomSampler draws in proportion to the weights", "[data][sampler]") {
  const std::vector<double> weights = {0, 1, 3, 0, 6, 0};
  const List drawn = data::WeightedRandomSampler(weights, 20000, {.seed = 5}).order(0);
  REQUIRE(drawn.size() == 20000);
  for (std::size_t k = 0; k < weights.size(); ++k) {
    const double p = weights[k] / 10,
                 count = static_cast<double>(std::ranges::count(drawn, static_cast<std::int64_t>(k)));
    INFO(k);
    CHECK(std::abs(count - 20000 * p) <= 5 * std::sqrt(20000 * p * (1 - p)));
  }
  // Without replacement: the first of each sample is distributed as the weights, all with a weight come once.
  const data::WeightedRandomSampler apart(weights, 3, {.replacement = false, .seed = 5});
  int firsts[6] = {};
  for (std::int64_t epoch = 0; epoch < 4000; ++epoch) {
    const List list = apart.order(epoch);
    CHECK(sorted(list) == List{1, 2, 4});
    ++firsts[list[0]];
  }
  CHECK(std::abs(firsts[4] - 2400) < 5 * std::sqrt(4000 * 0.6 * 0.4));
  CHECK(std::abs(firsts[1] - 400) < 5 * std::sqrt(4000 * 0.1 * 0.9));

  CHECK(data::WeightedRandomSampler({}, 0).order(0).empty());
  CHECK_THROWS_AS(data::WeightedRandomSampler({}, 1), ValueError);
  CHECK_THROWS_AS(data::WeightedRandomSampler({0, 0}, 1), ValueError);
  CHECK_THROWS_AS(data::WeightedRandomSampler({1, -1}, 1), ValueError);
  CHECK_THROWS_AS(data::WeightedRandomSampler({1, std::nan("")}, 1), ValueError);
  CHECK_THROWS_AS(data::WeightedRandomSampler({1e308, 1e308}, 1), ValueError);
  CHECK_THROWS_AS(data::WeightedRandomSampler({1, 0}, 2, {.replacement = false}), ValueError);
  CHECK_THROWS_AS(data::WeightedRandomSampler({1}, -1), ValueError);
}

TEST_CASE("DistributedSampler gives each rank its share", "[data][sampler]") {
  const auto shares = [](std::int64_t size, data::DistributedSamplerOptions options, std::int64_t epoch) {
    List all;
    std::set<std::size_t> sizes;
    for (options.rank = 0; options.rank < options.num_replicas; ++options.rank) {
      const data::DistributedSampler sampler(size, options);
      const List own = sampler.order(epoch);
      CHECK(static_cast<std::int64_t>(own.size()) == sampler.size());
      sizes.insert(own.size());
      all.insert(all.end(), own.begin(), own.end());
    }
    CHECK(sizes.size() == 1);
    return all;
  };
  // torch's DistributedSampler(range(10), 4, rank, shuffle=False): ranks have 0 4 8, 1 5 9, 2 6 0, 3 7 1.
  CHECK(shares(10, {.num_replicas = 4, .shuffle = false}, 0) == List{0, 4, 8, 1, 5, 9, 2, 6, 0, 3, 7, 1});
  CHECK(shares(10, {.num_replicas = 4, .shuffle = false, .drop_last = true}, 0) ==
        List{0, 4, 1, 5, 2, 6, 3, 7});
  CHECK(shares(2, {.num_replicas = 5, .shuffle = false}, 0) == List{0, 1, 0, 1, 0});
  const List shuffled = shares(12, {.num_replicas = 3, .seed = 4}, 2);
  CHECK(sorted(shuffled) == iota(12));
  CHECK(shuffled != shares(12, {.num_replicas = 3, .seed = 4}, 3));
  CHECK(shares(0, {.num_replicas = 2}, 0).empty());
  CHECK_THROWS_AS(data::DistributedSampler(3, {.num_replicas = 0}), ValueError);
  CHECK_THROWS_AS(data::DistributedSampler(3, {.num_replicas = 2, .rank = 2}), ValueError);
  CHECK_THROWS_AS(data::DistributedSampler(3, {.rank = -1}), ValueError);
  CHECK_THROWS_AS(data::DistributedSampler(-3), ValueError);
}

TEST_CASE("a loader takes what its sampler says, and resumes", "[data][sampler]") {
  const auto dataset = batches_of(0, 10);
  const data::WeightedRandomSampler sampler({1, 1, 1, 1, 1, 1, 1, 1, 1, 91}, 25, {.seed = 3});
  for (const int workers : {0, 3}) {
    data::DataLoader loader(dataset, {.batch_size = 4, .sampler = sampler, .workers = workers});
    CHECK(loader.size() == 7);
    CHECK(numbers_of(loader) == sampler.order(0));
    CHECK(numbers_of(loader) == sampler.order(1));
    List some;
    StateDict state;
    for (const auto& batch : loader) {
      for (const std::int64_t i : batch[0].to_vector<std::int64_t>()) some.push_back(i);
      if (loader.position() == 3) {
        state = loader.state_dict();
        break;
      }
    }
    data::DataLoader resumed(dataset, {.batch_size = 4, .sampler = sampler});
    resumed.load_state_dict(state);
    const List rest = numbers_of(resumed);
    some.insert(some.end(), rest.begin(), rest.end());
    CHECK(some == sampler.order(2));
    // The state of a loader without the sampler is another run's.
    data::DataLoader other(dataset, {.batch_size = 4});
    CHECK_THROWS_AS(other.load_state_dict(state), ValueError);
  }
  CHECK_THROWS_AS(data::DataLoader(dataset, {.shuffle = true, .sampler = sampler}), ValueError);
  struct Wrong {
    List list;
    std::int64_t count;
    std::int64_t size() const { return count; }
    List order(std::int64_t) const { return list; }
  };
  data::DataLoader outside(dataset, {.sampler = Wrong{{3, 10}, 2}});
  CHECK_THROWS_AS(outside.begin(), IndexError);
  data::DataLoader negative(dataset, {.sampler = Wrong{{-1}, 1}});
  CHECK_THROWS_AS(negative.begin(), IndexError);
  data::DataLoader fewer(dataset, {.sampler = Wrong{{1}, 2}});
  CHECK_THROWS_AS(fewer.begin(), ValueError);
  CHECK_THROWS_AS(data::DataLoader(dataset, {.sampler = Wrong{{}, -1}}), ValueError);
}

TEST_CASE("random_split cuts a dataset into disjoint parts", "[data][sampler]") {
  const auto sizes = [](const auto& parts) {
    List list;
    for (const auto& part : parts) list.push_back(part.size());
    return list;
  };
  const auto dataset = batches_of(0, 11);
  auto parts = data::random_split(dataset, {7, 4}, 42);
  CHECK(sizes(parts) == List{7, 4});
  List all;
  for (auto& part : parts) {
    data::DataLoader loader(part, {.batch_size = 5});
    const List own = numbers_of(loader);
    CHECK(own != sorted(own));
    all.insert(all.end(), own.begin(), own.end());
  }
  CHECK(sorted(all) == iota(11));
  CHECK(data::random_split_indices(11, std::vector<Real>{7, 4}, 42) ==
        data::random_split_indices(11, std::vector<Real>{7, 4}, 42));
  CHECK(data::random_split_indices(11, std::vector<Real>{7, 4}, 42) !=
        data::random_split_indices(11, std::vector<Real>{7, 4}, 43));
  // Shares: 11 / 2 is 5 and 5, and the one left over goes to the first.
  CHECK(sizes(data::random_split(dataset, {0.5, 0.5})) == List{6, 5});
  CHECK(sizes(data::random_split(dataset, {0.9, 0.1})) == List{10, 1});
  CHECK(sizes(data::random_split(dataset, {0.25, 0.25, 0.25, 0.25})) == List{3, 3, 3, 2});
  CHECK(sizes(data::random_split(dataset, {1.0})) == List{11});
  CHECK(sizes(data::random_split(batches_of(0, 1), {1, 0})) == List{1, 0});
  CHECK(sizes(data::random_split(batches_of(0, 1), {0.5, 0.5})) == List{1, 0});
  CHECK(sizes(data::random_split(batches_of(0, 0), {0.5, 0.5})) == List{0, 0});
  CHECK_THROWS_AS(data::random_split(dataset, {7, 5}), ValueError);
  CHECK_THROWS_AS(data::random_split(dataset, {10.5, 0.5}), ValueError);
  CHECK_THROWS_AS(data::random_split(dataset, {12, -1}), ValueError);
  CHECK_THROWS_AS(data::random_split(dataset, {0.5, 0.4}), ValueError);
  CHECK_THROWS_AS(data::random_split(dataset, {std::nan(""), 1}), ValueError);
  CHECK_THROWS_AS(data::random_split(dataset, {}), ValueError);
}

TEST_CASE("map, collate and ConcatDataset make datasets of datasets", "[data][sampler]") {
  const Count ten{0, 10};
  const auto scaled = data::map(ten, [](const std::pair<Tensor, Tensor>& example) {
    return std::array<Tensor, 2>{example.first + 100, example.second * 2};
  });
  data::DataLoader loader(scaled, {.batch_size = 4, .workers = 2});
  std::int64_t batches = 0;
  for (const auto& [x, y] : loader) {
    if (batches++ == 2) CHECK(x.to_vector<std::int64_t>() == List{108, 109});
    if (batches == 1) CHECK(y.to_vector<std::int64_t>() == List{0, 0, 2, 20, 4, 40, 6, 60});
  }
  CHECK(batches == 3);
  // By the number of the example; of a map of a part.
  const auto numbered = data::map(data::Subset(scaled, {9, 8}),
                                  [](const auto& example, std::int64_t i) { return example[0] * 10 + i; });
  CHECK(numbered.get(1).item() == 1081);

  // Lists of different lengths, put into one row with 0 between them.
  const auto ragged = data::map(ten, [](const auto& example) {
    return full({example.first.template item<std::int64_t>() % 3},
                example.first.template item<std::int64_t>(), {.dtype = i64});
  });
  CHECK_THROWS_AS(
      [&] {
        data::DataLoader wrong(ragged, {.batch_size = 4});
        (void)wrong.begin();
      }(),
      ShapeError);
  data::DataLoader padded(data::collate(ragged,
                                        [](const std::vector<Tensor>& examples) {
                                          List row;
                                          for (const Tensor& t : examples) {
                                            const List own = t.to_vector<std::int64_t>();
                                            row.insert(row.end(), own.begin(), own.end());
                                            row.push_back(0);
                                          }
                                          return tensor_of<std::int64_t>(
                                              {static_cast<std::int64_t>(row.size())}, row);
                                        }),
                          {.batch_size = 3});
  CHECK((*padded.begin()).to_vector<std::int64_t>() == List{0, 1, 0, 2, 2, 0});

  SECTION("one after the other") {
    const data::ConcatDataset examples(std::vector<Count>{{0, 3}, {100, 0}, {7, 2}});
    CHECK(examples.size() == 5);
    CHECK(examples.get(3).first.item() == 7);
    CHECK_THROWS_AS(examples.get(5), IndexError);
    CHECK_THROWS_AS(examples.get(-1), IndexError);
    CHECK_THROWS_AS(data::ConcatDataset(std::vector<Count>{}), ValueError);

    const data::ConcatDataset rows(std::vector{batches_of(0, 3), batches_of(100, 0), batches_of(7, 2)});
    CHECK(rows.get_batch(List{4, 0, 3, 2, 4})[0].to_vector<std::int64_t>() == List{8, 0, 7, 2, 8});
    CHECK(rows.get_batch(List{1, 0})[0].to_vector<std::int64_t>() == List{1, 0});
    CHECK(rows.get_batch(List{4})[0].to_vector<std::int64_t>() == List{8});
    CHECK(rows.get_batch(List{})[0].shape() == Shape{0});
    CHECK_THROWS_AS(rows.get_batch(List{5}), IndexError);
    data::DataLoader shuffled(rows, {.batch_size = 2, .shuffle = true, .workers = 2, .seed = 1});
    CHECK(sorted(numbers_of(shuffled)) == List{0, 1, 2, 7, 8});
    // Windows of tokens have no get().
    const data::TokenDataset tokens(data::Tokens::from_vector({1, 2, 3, 4, 5}),
                                    {.block = 2, .random = false});
    const data::ConcatDataset texts(std::vector{tokens, tokens});
    CHECK(texts.size() == 4);
    CHECK(texts.get_batch(List{3, 0})[0].to_vector<std::int64_t>() == List{3, 4, 1, 2});
  }
}
