#include <array>
#include <cstdint>
#include <memory>

#include <cotangent/nn/data/loader.h>
#include <cotangent/nn/data/tokens.h>
#include <cotangent/ops/creation/creation.h>

#include "tests/catch.h"
#include "tests/optim_testing.h"

// Lack of memory or threads, and loaders that were moved from: typed errors, and the next loop works.

using namespace ct;
using ct::testing::check_mentions;
using ct::testing::message_of;

namespace {

// A dataset of any given size; an example is its number.
struct Endless {
  std::int64_t count;
  std::int64_t size() const { return count; }
  Tensor get(std::int64_t i) const { return full({1}, static_cast<double>(i)); }
};

template <class Loader>
std::int64_t batches_of(Loader& loader) {
  std::int64_t count = 0;
  for (const auto& batch : loader) count += batch.defined();
  return count;
}

}  // namespace

TEST_CASE("DataLoader: sizes that no memory holds", "[data][limits]") {
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  data::DataLoader shuffled(Endless{huge}, {.batch_size = 2, .shuffle = true});
  check_mentions(message_of([&] { shuffled.begin(); }), {"[DataLoader]", "4611686018427387904", "; ask"});
  CHECK_THROWS_AS(shuffled.begin(), OutOfMemoryError);
  CHECK(shuffled.epoch() == 0);
  for (const int workers : {0, 2}) {
    data::DataLoader wide(Endless{huge}, {.batch_size = huge - 1, .workers = workers});
    CHECK_THROWS_AS(wide.begin(), OutOfMemoryError);
  }
  CHECK_THROWS_AS(data::DataLoader(Endless{4}, {.prefetch_batches = INT32_MAX}), ValueError);
  CHECK_THROWS_AS(data::DataLoader(Endless{4}, {.workers = INT32_MAX}), ValueError);
  CHECK_THROWS_AS(data::DataLoader(Endless{-1}, {}), ValueError);
  CHECK_THROWS_AS(data::DataLoader(Endless{4}, {.batch_size = INT64_MIN}), ValueError);
  data::DataLoader whole(Endless{4}, {.batch_size = INT64_MAX});
  CHECK(whole.size() == 1);
  CHECK(batches_of(whole) == 1);
  CHECK_THROWS_AS(data::TokenDataset(data::Tokens::from_vector({1, 2, 3}), {.block = 1, .vocab_size = -1}),
                  ValueError);
}

TEST_CASE("Handles to data that were moved from say so", "[data][limits]") {
  data::DataLoader loader(Endless{6}, {.batch_size = 2});
  auto it = loader.begin();
  auto moved_it = std::move(it);
  check_mentions(message_of([&] { ++it; }), {"[DataLoader]", "moved from"});  // NOLINT
  auto moved = std::move(loader);
  const auto text_of = [](auto&& f) { return message_of([&] { f(); }); };
  for (const std::string& text :
       {text_of([&] { loader.begin(); }),  // NOLINT
        text_of([&] { (void)loader.size(); }), text_of([&] { (void)loader.dataset(); }),
        text_of([&] { (void)loader.epoch(); }), text_of([&] { (void)loader.options(); }),
        text_of([&] { (void)loader.state_dict(); })})
    check_mentions(text, {"[DataLoader]", "moved from", "; use"});
  data::Tokens tokens = data::Tokens::from_vector({1, 2, 3});
  const data::Tokens tokens_moved = std::move(tokens);
  std::array<std::int64_t, 2> room{};
  check_mentions(text_of([&] { tokens.read(0, room); }), {"[Tokens]", "moved from"});  // NOLINT
  check_mentions(text_of([&] { (void)tokens.name(); }), {"[Tokens]", "moved from"});
  check_mentions(text_of([&] { (void)tokens.part(0, 9); }), {"[Tokens]", "moved from"});
  data::TensorDataset pairs(ones({2}), ones({2}));
  const auto pairs_moved = std::move(pairs);
  CHECK_THROWS_AS(pairs.size(), Error);  // NOLINT
}
