#include <cotangent/nn/data/tokens.h>

#include <set>

#include <cotangent/nn/data/loader.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::TempFolder;
using data::TokenDataset;
using data::TokenFormat;
using data::Tokens;

namespace {

std::vector<std::int64_t> all_of(const Tokens& tokens) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(tokens.size()));
  tokens.read(0, out);
  return out;
}

std::vector<std::int64_t> counting(std::int64_t n) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(i);
  return out;
}

template <class E, class F>
std::string message(F&& f) {
  try {
    f();
  } catch (const E& e) { return e.what(); }
  return "nothing was thrown";
}

using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("token files: the three formats", "[tokens]") {
  const TempFolder folder;
  const std::vector<std::int64_t> tokens = {0, 1, 65535, 258, 7};
  data::save_tokens(folder / "raw.bin", tokens);
  CHECK(folder.read("raw.bin") == std::string("\0\0\1\0\xff\xff\2\1\7\0", 10));
  CHECK(all_of(Tokens::open(folder / "raw.bin")) == tokens);

  data::save_tokens(folder / "llmc.bin", tokens, TokenFormat::llmc);
  const std::string file = folder.read("llmc.bin");
  REQUIRE(file.size() == 1024 + 10);
  CHECK(file.substr(0, 12) == std::string("\x88\xd8\x34\x01\1\0\0\0\5\0\0\0", 12));
  CHECK(file.substr(1024) == folder.read("raw.bin"));
  CHECK(all_of(Tokens::open(folder / "llmc.bin")) == tokens);

  const std::vector<std::int64_t> wide = {128255, 0, 70000};
  data::save_tokens(folder / "wide.bin", wide, TokenFormat::llmc32);
  CHECK(folder.read("wide.bin").size() == 1024 + 12);
  CHECK(folder.read("wide.bin").substr(0, 8) == std::string("\xa1\xd9\x34\x01\7\0\0\0", 8));
  CHECK(all_of(Tokens::open(folder / "wide.bin")) == wide);

  data::save_tokens(folder / "none.bin", {});
  CHECK(Tokens::open(folder / "none.bin").size() == 0);
}

TEST_CASE("token files: parts, splits and bounds", "[tokens]") {
  const Tokens tokens = Tokens::from_vector(counting(11));
  const auto [train, val] = tokens.split(0.1);
  CHECK(all_of(train) == counting(10));
  CHECK(all_of(val) == std::vector<std::int64_t>{10});
  CHECK(all_of(tokens.part(3, 4).part(1, 2)) == std::vector<std::int64_t>{4, 5});
  std::vector<std::int64_t> two(2);
  CHECK_THROWS_AS(tokens.read(10, two), IndexError);
  CHECK_THROWS_AS(tokens.read(-1, two), IndexError);
  CHECK_THROWS_AS(train.read(9, two), IndexError);
  CHECK_THROWS_AS(tokens.part(10, 2), IndexError);
  CHECK_THROWS_AS(tokens.part(INT64_MAX, INT64_MAX), IndexError);
  CHECK_THROWS_AS(tokens.split(1.5), ValueError);
  CHECK_THROWS_AS(Tokens::from_vector({1, -1}), ValueError);
}

TEST_CASE("token files: what is refused", "[tokens]") {
  const TempFolder folder;
  CHECK_THROWS_AS(Tokens::open(folder / "absent"), IoError);
  folder.write("odd.bin", "abc");
  CHECK_THAT(message<IoError>([&] { Tokens::open(folder / "odd.bin"); }),
             Contains("odd number of bytes (3)"));
  data::save_tokens(folder / "whole.bin", counting(5), TokenFormat::llmc);
  const std::string file = folder.read("whole.bin");
  for (const std::size_t size : {std::size_t{12}, std::size_t{1000}, file.size() - 2, file.size() - 1}) {
    folder.write("cut.bin", file.substr(0, size));
    CHECK_THAT(message<IoError>([&] { Tokens::open(folder / "cut.bin"); }),
               Contains("cut.bin") && Contains("announces 5 tokens"));
  }
  folder.write("long.bin", file + "ab");
  CHECK_THROWS_AS(Tokens::open(folder / "long.bin"), IoError);
  std::string other = file;
  other[4] = 2;
  folder.write("version.bin", other);
  CHECK_THAT(message<IoError>([&] { Tokens::open(folder / "version.bin"); }), Contains("version 2"));
  other = file;
  other[0] = '\x8a';
  folder.write("choices.bin", other);
  CHECK_THAT(message<IoError>([&] { Tokens::open(folder / "choices.bin"); }), Contains("multiple-choice"));
  CHECK_THROWS_AS(data::save_tokens(folder / "x", std::vector<std::int64_t>{65536}), ValueError);
  CHECK_THROWS_AS(data::save_tokens(folder / "x", std::vector<std::int64_t>{-1}), ValueError);

  // A file that shrinks after it was opened.
  data::save_tokens(folder / "shrinks.bin", counting(60000));
  const Tokens tokens = Tokens::open(folder / "shrinks.bin");
  std::filesystem::resize_file(folder / "shrinks.bin", 100);
  CHECK_THROWS_AS(all_of(tokens), IoError);
}

TEST_CASE("token windows: side by side", "[tokens]") {
  const TokenDataset set(Tokens::from_vector(counting(12)), {.block = 4, .random = false});
  REQUIRE(set.size() == 2);  // a third one would need a thirteenth token
  const auto [x, y] = set.get_batch(std::vector<std::int64_t>{1, 0});
  CHECK(x.to_vector<std::int64_t>() == std::vector<std::int64_t>{4, 5, 6, 7, 0, 1, 2, 3});
  CHECK(y.to_vector<std::int64_t>() == std::vector<std::int64_t>{5, 6, 7, 8, 1, 2, 3, 4});
  CHECK(x.shape() == Shape{2, 4});
  CHECK(x.dtype() == i64);
  CHECK_THROWS_AS(set.get_batch(std::vector<std::int64_t>{2}), IndexError);
  CHECK_THROWS_AS(TokenDataset(Tokens::from_vector(counting(4)), {.block = 4}), ValueError);
  CHECK_THROWS_AS(TokenDataset(Tokens::from_vector(counting(4)), {.block = 0}), ValueError);
  CHECK(TokenDataset(Tokens::from_vector(counting(5)), {.block = 4, .random = false}).size() == 1);
}

TEST_CASE("token windows: random places depend on seed and number alone", "[tokens]") {
  const Tokens tokens = Tokens::from_vector(counting(10));
  const TokenDataset set(tokens, {.block = 4, .seed = 7}), same(tokens, {.block = 4, .seed = 7}),
      other(tokens, {.block = 4, .seed = 8});
  std::set<std::int64_t> places;
  int equal = 0;
  for (std::int64_t i = 0; i < 300; ++i) {
    const std::int64_t start = set.start_of(i);
    places.insert(start);
    CHECK(start == same.start_of(i));
    equal += start == other.start_of(i);
  }
  CHECK(places == std::set<std::int64_t>{0, 1, 2, 3, 4, 5});  // 5: the window ends with the text
  CHECK(equal < 150);
  CHECK(TokenDataset(Tokens::from_vector(counting(5)), {.block = 4}).start_of(1) == 0);
}

TEST_CASE("token windows: tokens beyond the vocabulary", "[tokens]") {
  const TokenDataset set(Tokens::from_vector({1, 2, 3, 99, 1}, "corpus.bin"),
                         {.block = 4, .random = false, .vocab_size = 50});
  CHECK_THAT(message<IndexError>([&] { set.get_batch(std::vector<std::int64_t>{0}); }),
             Contains("corpus.bin") && Contains("token 99 at position 3") && Contains("ends at 49"));
  // The position in a part counts from the file's begin.
  const TokenDataset last(Tokens::from_vector({1, 2, 3, 1, 99}, "corpus.bin").part(2, 3),
                          {.block = 2, .random = false, .vocab_size = 50});
  CHECK_THAT(message<IndexError>([&] { last.get_batch(std::vector<std::int64_t>{0}); }),
             Contains("token 99 at position 4"));
}

TEST_CASE("token windows: through a loader, resumed in the middle, with any number of workers", "[tokens]") {
  const Tokens tokens = Tokens::from_vector(counting(1000));
  const auto loader = [&](int workers) {
    return data::DataLoader(TokenDataset(tokens, {.block = 8, .seed = 3}),
                            {.batch_size = 4, .workers = workers, .seed = 1});
  };
  std::vector<std::vector<std::int64_t>> plain, threaded, resumed;
  auto a = loader(0);
  CHECK(a.size() == std::int64_t{1} << 60);
  StateDict state;
  for (auto [x, y] : a) {
    plain.push_back(x.to_vector<std::int64_t>());
    if (plain.size() == 5) state = a.state_dict();
    if (plain.size() == 10) break;
  }
  for (auto [x, y] : loader(2)) {
    threaded.push_back(x.to_vector<std::int64_t>());
    if (threaded.size() == 10) break;
  }
  CHECK(threaded == plain);
  auto b = loader(0);
  b.load_state_dict(state);
  for (auto [x, y] : b) {
    resumed.push_back(x.to_vector<std::int64_t>());
    if (resumed.size() == 5) break;
  }
  CHECK(resumed == std::vector<std::vector<std::int64_t>>(plain.begin() + 5, plain.end()));
}
