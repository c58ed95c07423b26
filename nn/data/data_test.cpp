#include <cotangent/nn/data/loader.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>

#include <zlib.h>

#include <cotangent/core/base/rng.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/nn/data/idx.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::bytes_of;
using ct::testing::TempFolder;
using ct::testing::tensor_of;

namespace {

data::TensorDataset<2> numbers(std::int64_t count) {
  std::vector<float> x(static_cast<std::size_t>(2 * count));
  std::vector<std::int64_t> y(static_cast<std::size_t>(count));
  std::iota(x.begin(), x.end(), 0.0f);
  std::iota(y.begin(), y.end(), 0);
  return data::TensorDataset(tensor_of<float>({count, 2}, x), tensor_of<std::int64_t>({count}, y));
}

// Labels of a loop over `loader` as one list; each batch ends with -1.
template <class Loader>
std::vector<std::int64_t> labels_of(Loader& loader) {
  std::vector<std::int64_t> seen;
  for (auto [x, y] : loader) {
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      seen.push_back(y.template data<std::int64_t>()[i]);
      CHECK(x.template data<float>()[2 * i + 1] == 2 * seen.back() + 1);
    }
    seen.push_back(-1);
  }
  return seen;
}

struct Squares {  // examples one by one
  std::int64_t size() const { return 10; }
  std::pair<Tensor, Tensor> get(std::int64_t i) const {
    if (i == fails_at) throw IndexError("[Squares] example " + std::to_string(i));
    return {tensor_of<float>({1, 2}, {static_cast<float>(2 * i), static_cast<float>(2 * i + 1)}),
            tensor_of<std::int64_t>({}, {i})};
  }
  std::int64_t fails_at = -1;
};

}  // namespace

TEST_CASE("DataLoader: batches in order, the last one shorter or left out", "[data]") {
  data::DataLoader loader(numbers(5), {.batch_size = 2});
  CHECK(loader.size() == 3);
  CHECK(labels_of(loader) == std::vector<std::int64_t>{0, 1, -1, 2, 3, -1, 4, -1});
  CHECK(loader.epoch() == 1);
  data::DataLoader full(numbers(5), {.batch_size = 2, .drop_last = true});
  CHECK(labels_of(full) == std::vector<std::int64_t>{0, 1, -1, 2, 3, -1});
  data::DataLoader one(numbers(5), {.batch_size = INT64_MAX});
  CHECK(one.size() == 1);
  CHECK(labels_of(one) == std::vector<std::int64_t>{0, 1, 2, 3, 4, -1});
  CHECK(data::DataLoader(numbers(5), {.batch_size = INT64_MAX, .drop_last = true}).size() == 0);
  data::DataLoader none(numbers(0), {.batch_size = 2, .shuffle = true});
  CHECK(labels_of(none).empty());
}

TEST_CASE("DataLoader: examples one by one are stacked", "[data]") {
  data::DataLoader loader(Squares(), {.batch_size = 4});
  std::vector<std::int64_t> sizes;
  for (auto& [x, y] : loader) {
    CHECK(x.shape() == Shape{y.numel(), 1, 2});
    sizes.push_back(y.numel());
  }
  CHECK(sizes == std::vector<std::int64_t>{4, 4, 2});
}

TEST_CASE("DataLoader: the order depends on seed and epoch alone", "[data]") {
  const auto epochs = [](int workers, std::uint64_t seed) {
    data::DataLoader loader(numbers(101),
                            {.batch_size = 7, .shuffle = true, .workers = workers, .seed = seed});
    std::vector<std::vector<std::int64_t>> all;
    for (int epoch = 0; epoch < 3; ++epoch) all.push_back(labels_of(loader));
    return all;
  };
  const auto reference = epochs(0, 5);
  std::set<std::int64_t> distinct(reference[0].begin(), reference[0].end());
  CHECK(distinct.size() == 102);  // every example once, and the -1
  CHECK(reference[0] != reference[1]);
  CHECK(reference[1] != reference[2]);
  CHECK(epochs(1, 5) == reference);
  CHECK(epochs(4, 5) == reference);
  CHECK(epochs(0, 6) != reference);

  manual_seed(1);
  data::DataLoader a(numbers(50), {.batch_size = 50, .shuffle = true});
  data::DataLoader b(numbers(50), {.batch_size = 50, .shuffle = true});
  manual_seed(1);
  data::DataLoader c(numbers(50), {.batch_size = 50, .shuffle = true});
  const auto from_a = labels_of(a);
  CHECK(from_a != labels_of(b));
  CHECK(from_a == labels_of(c));
}

TEST_CASE("DataLoader: one that does not shuffle leaves the generator as it was", "[data]") {
  manual_seed(7);
  data::DataLoader loader(numbers(20), {.batch_size = 6});
  labels_of(loader);
  CHECK(default_generator().state().offset == 0);
}

TEST_CASE("DataLoader: a shuffle is uniform", "[data]") {
  // Places of example 0 in 6000 shuffles of 6: chi-squared with 5 degrees of freedom stays
  // under 20.5 with a probability of 99.9 %.
  data::DataLoader loader(numbers(6), {.batch_size = 6, .shuffle = true, .seed = 3});
  std::vector<double> at(6);
  for (int i = 0; i < 6000; ++i) {
    const auto order = labels_of(loader);
    at[static_cast<std::size_t>(std::find(order.begin(), order.end(), 0) - order.begin())] += 1;
  }
  double chi = 0;
  for (double n : at) chi += (n - 1000) * (n - 1000) / 1000;
  CHECK(chi < 20.5);
}

TEST_CASE("DataLoader: a loop is continued in the middle", "[data]") {
  const int workers = GENERATE(0, 3);
  const data::LoaderOptions options{.batch_size = 3, .shuffle = true, .workers = workers, .seed = 9};
  data::DataLoader whole(numbers(20), options);
  std::vector<std::vector<std::int64_t>> batches;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (auto [x, y] : whole) batches.push_back(y.to_vector<std::int64_t>());

  for (std::size_t stop = 0; stop <= batches.size(); ++stop) {
    data::DataLoader first(numbers(20), options);
    StateDict state = first.state_dict();
    std::size_t seen = 0;
    for (int epoch = 0; epoch < 2 && seen < stop; ++epoch) {
      for (auto [x, y] : first) {
        CHECK(y.to_vector<std::int64_t>() == batches[seen]);
        ++seen;
        state = first.state_dict();
        if (seen == stop) break;
      }
    }
    data::DataLoader second(numbers(20), options);
    second.load_state_dict(state);
    CHECK(second.position() == static_cast<std::int64_t>(stop <= 7 ? stop : stop - 7));
    while (second.epoch() < 2)
      for (auto [x, y] : second) CHECK(y.to_vector<std::int64_t>() == batches[seen++]);
    CHECK(seen == batches.size());
  }
}

TEST_CASE("DataLoader: a loop that is left counts as an epoch", "[data]") {
  const int workers = GENERATE(0, 2);
  data::DataLoader loader(numbers(20), {.batch_size = 3, .shuffle = true, .workers = workers, .seed = 9});
  data::DataLoader other(numbers(20), {.batch_size = 3, .shuffle = true, .seed = 9});
  for (auto [x, y] : loader) {
    CHECK(loader.epoch() == 0);
    CHECK_THROWS_AS(loader.begin(), Error);
    CHECK_THROWS_AS(loader.load_state_dict(other.state_dict()), Error);
    break;
  }
  CHECK(loader.epoch() == 1);
  CHECK(loader.position() == 0);
  labels_of(other);
  CHECK(labels_of(loader) == labels_of(other));
}

TEST_CASE("DataLoader: ranks take their parts of one rank's batches, and another number goes on", "[data]") {
  const auto batches_of = [](std::int64_t ranks, const StateDict& from) {
    std::vector<std::vector<std::int64_t>> all;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      data::DataLoader loader(
          numbers(21), {.batch_size = 12, .shuffle = true, .num_replicas = ranks, .rank = rank, .seed = 9});
      loader.load_state_dict(from);
      std::size_t at = 0;
      for (auto [x, y] : loader) {
        if (rank == 0) all.emplace_back();
        CHECK(y.numel() == (loader.position() == 1 ? 12 : 9 + ranks - 1) / ranks);
        for (const std::int64_t i : y.to_vector<std::int64_t>()) all[at].push_back(i);
        ++at;
      }
    }
    return all;
  };
  data::DataLoader whole(numbers(21), {.batch_size = 12, .shuffle = true, .seed = 9});
  const StateDict start = whole.state_dict();
  const auto one = batches_of(1, start);
  REQUIRE(one.size() == 2);
  CHECK(one[1].size() == 9);
  CHECK(batches_of(3, start) == one);
  for (const std::int64_t ranks : {2, 4}) {  // 9 is filled up with its own first ones
    auto several = batches_of(ranks, start);
    CHECK(several[0] == one[0]);
    std::vector<std::int64_t> filled = one[1];
    for (std::size_t i = 0; filled.size() % static_cast<std::size_t>(ranks) != 0; ++i)
      filled.push_back(one[1][i]);
    CHECK(several[1] == filled);
  }
  // A state in the middle is every number's.
  StateDict middle;
  for (data::DataLoader half(numbers(21),
                             {.batch_size = 12, .shuffle = true, .num_replicas = 4, .rank = 3, .seed = 9});
       auto [x, y] : half) {
    middle = half.state_dict();
    break;
  }
  CHECK(batches_of(3, middle) == std::vector<std::vector<std::int64_t>>{one[1]});
  CHECK_THROWS_WITH(data::DataLoader(numbers(4), {.batch_size = 4, .num_replicas = 3}),
                    Catch::Contains("batch_size is 4 for 3 ranks"));
  CHECK_THROWS_AS(data::DataLoader(numbers(4), {.batch_size = 4, .num_replicas = 0}), ValueError);
  CHECK_THROWS_AS(data::DataLoader(numbers(4), {.batch_size = 4, .num_replicas = 2, .rank = 2}), ValueError);
  CHECK_THROWS_AS(data::DataLoader(numbers(4), {.batch_size = 4, .rank = -1}), ValueError);
}

TEST_CASE("DataLoader: exceptions reach the loop when their batch is due", "[data]") {
  for (int workers : {0, 1, 3}) {
    data::DataLoader loader(Squares{.fails_at = 5}, {.batch_size = 2, .workers = workers});
    int batches = 0;
    try {
      for (auto [x, y] : loader) ++batches;
      FAIL_CHECK("no exception");
    } catch (const IndexError& error) { CHECK(std::string(error.what()) == "[Squares] example 5"); }
    CHECK(batches == 2);
    CHECK(loader.epoch() == 1);  // and the next loop works
    CHECK_THROWS_AS(
        [&] {
          for (auto [x, y] : loader) ++batches;
        }(),
        IndexError);
  }
  CHECK_THROWS_AS(data::DataLoader(Squares(), {.batch_size = 0}), ValueError);
  CHECK_THROWS_AS(data::DataLoader(Squares(), {.workers = -1}), ValueError);
  CHECK_THROWS_AS(data::DataLoader(Squares(), {.prefetch_batches = 0}), ValueError);
  if (cuda_device_count() == 0)
    CHECK_THROWS_AS(data::DataLoader(Squares(), {.prefetch = cuda(0)}), DeviceError);
  data::DataLoader loader(numbers(4), {.batch_size = 2});
  data::DataLoader other(numbers(4), {.batch_size = 1});
  CHECK_THROWS_AS(loader.load_state_dict(other.state_dict()), ValueError);
  CHECK_THROWS_AS(loader.load_state_dict({}), ValueError);
}

TEST_CASE("DataLoader: batches arrive on the GPU whole", "[data][cuda]") {
  if (cuda_device_count() == 0) return;
  for (int workers : {0, 2}) {
    const data::LoaderOptions options{.batch_size = 64, .shuffle = true, .workers = workers, .seed = 2};
    data::LoaderOptions on_gpu = options;
    on_gpu.prefetch = cuda(0);
    data::DataLoader here(numbers(10000), options), there(numbers(10000), on_gpu);
    auto expected = here.begin();
    for (auto [x, y] : there) {
      REQUIRE(x.device() == cuda(0));
      CHECK(bytes_of(x.to(cpu)) == bytes_of((*expected)[0]));
      CHECK(bytes_of(y.to(cpu)) == bytes_of((*expected)[1]));
      ++expected;
    }
  }
}

namespace {
// Notes the stream that its batches are made on.
struct Watched {
  data::TensorDataset<2> inner;
  std::shared_ptr<std::vector<Stream>> streams;
  std::int64_t size() const { return inner.size(); }
  auto get_batch(std::span<const std::int64_t> indices) const {
    streams->push_back(current_stream(cuda(0)));
    return inner.get_batch(indices);
  }
};
}  // namespace

TEST_CASE("DataLoader: batches travel on a stream of their own while the GPU computes", "[data][cuda]") {
  if (cuda_device_count() == 0) return;
  const auto streams = std::make_shared<std::vector<Stream>>();
  data::DataLoader there(Watched{numbers(4096), streams},
                         {.batch_size = 1024, .seed = 2, .prefetch = cuda(0), .prefetch_batches = 2});
  const Tensor a = ones({8192, 8192}, {.device = cuda(0)});
  Tensor busy = a.matmul(a);  // the library that multiplies is loaded now, not below
  synchronize(cuda(0));
  for (int i = 0; i < 40; ++i) busy = a.matmul(a);  // most of a second
  Event computed;
  computed.record(current_stream(cuda(0)));
  std::vector<Tensor> got;
  {
    const SyncPolicyGuard strict(SyncPolicy::error);
    for (auto [x, y] : there) got.push_back(x + 1.0);
  }
  // All batches have been handed out, and used, before the first product was waited for.
  CHECK_FALSE(computed.query());
  REQUIRE(streams->size() == 4);
  for (const Stream& s : *streams) {
    CHECK(s == streams->front());
    CHECK_FALSE(s == current_stream(cuda(0)));
  }
  std::size_t at = 0;
  data::DataLoader here(numbers(4096), {.batch_size = 1024, .seed = 2});
  for (auto [x, y] : here) CHECK(got[at++].to_vector<float>() == (x + 1.0).to_vector<float>());
}

TEST_CASE("DataLoader: loops one after the other take one stream, loops at the same time take two",
          "[data][cuda]") {
  if (cuda_device_count() == 0) return;
  const auto streams = std::make_shared<std::vector<Stream>>();
  const data::LoaderOptions options{.batch_size = 16, .prefetch = cuda(0), .prefetch_batches = 2};
  const auto loop = [&](auto& loader) {
    streams->clear();
    for ([[maybe_unused]] const auto& batch : loader) {}
    REQUIRE(streams->size() == 4);
    for (const Stream& s : *streams) CHECK(s == streams->front());
    return streams->front();
  };
  data::DataLoader first(Watched{numbers(64), streams}, options);
  data::DataLoader second(Watched{numbers(64), streams}, options);
  const Stream stream = loop(first);
  const std::uint64_t segments = memory_stats(cuda(0)).allocations;
  for (int epoch = 0; epoch < 40; ++epoch) CHECK(loop(epoch % 2 ? first : second) == stream);
  CHECK(memory_stats(cuda(0)).allocations == segments);
  auto running = first.begin();
  CHECK_FALSE(loop(second) == stream);
}

TEST_CASE("DataLoader: a dataset on the GPU", "[data][cuda]") {
  if (cuda_device_count() == 0) return;
  const data::TensorDataset<2> here = numbers(50);
  const data::TensorDataset there(here.tensors()[0].to(cuda(0)), here.tensors()[1].to(cuda(0)));
  for (int workers : {0, 2}) {
    data::LoaderOptions options{.batch_size = 8, .shuffle = true, .workers = workers, .seed = 2};
    data::DataLoader a(here, options);
    options.prefetch = cuda(0);
    data::DataLoader b(there, options);
    auto expected = a.begin();
    for (auto [x, y] : b) {
      CHECK(x.to_vector<float>() == (*expected)[0].to_vector<float>());
      CHECK(y.to_vector<std::int64_t>() == (*expected)[1].to_vector<std::int64_t>());
      ++expected;
    }
  }
}

TEST_CASE("datasets: rows, subsets, errors", "[data]") {
  const data::TensorDataset<2> all = numbers(4);
  CHECK(all.get(2)[1].item<std::int64_t>() == 2);
  const data::Subset some(all, {3, 1});
  CHECK(some.size() == 2);
  CHECK(some.get_batch(std::vector<std::int64_t>{0, 1})[1].to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{3, 1});
  CHECK_THROWS_AS(data::Subset(all, {4}), IndexError);
  CHECK_THROWS_AS(data::gather_rows(all.tensors()[0], std::vector<std::int64_t>{4}), IndexError);
  CHECK_THROWS_AS(data::gather_rows(tensor_of<float>({}, {1}), std::vector<std::int64_t>{}), ShapeError);
  CHECK_THROWS_AS(data::TensorDataset(tensor_of<float>({2}, {1, 2}), tensor_of<float>({1}, {1})), ShapeError);
  const std::vector<Tensor> shapes = {tensor_of<float>({1}, {1}), tensor_of<float>({2}, {1, 2})};
  CHECK_THROWS_AS(data::stack_examples(shapes), ShapeError);
  const std::vector<Tensor> types = {tensor_of<float>({1}, {1}), tensor_of<double>({1}, {1})};
  CHECK_THROWS_AS(data::stack_examples(types), DTypeError);
}
