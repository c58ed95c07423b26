#include <cmath>
#include <fstream>

#include <cotangent/nn/data/cifar.h>
#include <cotangent/nn/data/loader.h>
#include <cotangent/nn/data/npy.h>
#include <cotangent/nn/io/npy.h>
#include <cotangent/ops/creation/creation.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::bytes_of;
using ct::testing::TempFolder;
using ct::testing::tensor_of;
using List = std::vector<std::int64_t>;

namespace {

std::string record(char label, char first) {
  std::string bytes(1 + 3 * 32 * 32, '\0');
  bytes[0] = label;
  bytes[1] = first;
  bytes.back() = '\x33';
  return bytes;
}

}  // namespace

TEST_CASE("cifar10: records of a label and an image", "[data][files]") {
  const TempFolder folder;
  folder.write("one.bin", record(7, '\xff') + record(0, '\x00'));
  const data::ImageDataset one = data::read_cifar10(folder / "one.bin");
  CHECK(one.size() == 2);
  CHECK(one.labels().to_vector<std::int64_t>() == List{7, 0});
  const auto [x, y] = one.get_batch(List{0});
  CHECK(x.shape() == Shape{1, 3, 32, 32});
  CHECK(x.to_vector<float>().front() == 1);
  CHECK(x.to_vector<float>().back() == 0.2f);

  const auto bad = [&](const std::string& bytes, const std::string& words) {
    folder.write("bad.bin", bytes);
    try {
      data::read_cifar10(folder / "bad.bin");
      FAIL_CHECK("was accepted");
    } catch (const IoError& e) {
      INFO(e.what());
      CHECK(std::string(e.what()).find(words) != std::string::npos);
      CHECK(std::string(e.what()).find("bad.bin") != std::string::npos);
    }
  };
  bad("", "has 0 bytes");
  bad(record(1, 0).substr(1), "has 3072 bytes");
  bad(record(1, 0) + "x", "has 3074 bytes");
  bad(record(1, 0) + record(10, 0), "the label 10 at byte 3073");

  CHECK_THROWS_AS(data::cifar10(folder.path()), IoError);
  for (char i = 1; i <= 5; ++i) folder.write("data_batch_" + std::to_string(int{i}) + ".bin", record(i, i));
  folder.write("test_batch.bin", record(9, 0));
  CHECK(data::cifar10(folder.path()).labels().to_vector<std::int64_t>() == List{1, 2, 3, 4, 5});
  CHECK(data::cifar10(folder.path(), data::test, {.mean = 0.5, .std = 0.5})
            .labels()
            .to_vector<std::int64_t>() == List{9});
}

TEST_CASE("npy datasets read the rows that are asked for", "[data][files]") {
  const TempFolder folder;
  const Tensor x = arange(0, 24, 1, {.dtype = f32}).view({4, 2, 3}),
               y = tensor_of<std::int64_t>({4}, {5, 6, 7, 8});
  io::save_npy(folder / "x.npy", x);
  io::save_npy(folder / "y.npy", y);
  const data::NpyDataset both(folder / "x.npy", folder / "y.npy");
  CHECK(both.size() == 4);
  const auto [a, b] = both.get_batch(List{3, 0, 3});
  CHECK(a.shape() == Shape{3, 2, 3});
  CHECK(bytes_of(a.select(0, 0)) == bytes_of(x.select(0, 3).clone()));
  CHECK(a.to_vector<float>()[6] == 0);
  CHECK(b.to_vector<std::int64_t>() == List{8, 5, 8});
  CHECK_THROWS_AS(both.get_batch(List{4}), IndexError);
  CHECK_THROWS_AS(both.get_batch(List{-1}), IndexError);
  data::DataLoader loader(both, {.batch_size = 2, .shuffle = true, .workers = 2, .seed = 1});
  std::int64_t sum = 0;
  for (const auto& batch : loader)
    for (const std::int64_t label : batch[1].to_vector<std::int64_t>()) sum += label;
  CHECK(sum == 26);

  io::save_npy(folder / "flags.npy", tensor_of<bool>({2}, {true, false}));
  std::string flags = folder.read("flags.npy");
  flags[flags.size() - 2] = '\x07';
  folder.write("flags.npy", flags);
  CHECK(bytes_of(data::NpyRows::open(folder / "flags.npy").rows(List{0})) == std::string(1, '\1'));

  // Empty ones.
  io::save_npy(folder / "none.npy", zeros({0, 3}));
  CHECK(data::NpyRows::open(folder / "none.npy").rows(List{}).shape() == Shape{0, 3});
  io::save_npy(folder / "thin.npy", zeros({3, 0}));
  CHECK(data::NpyRows::open(folder / "thin.npy").rows(List{2, 1}).shape() == Shape{2, 0});
  CHECK_THROWS_AS(data::NpyDataset(folder / "x.npy", folder / "none.npy"), ShapeError);
}

TEST_CASE("npy datasets refuse what they can't read by rows", "[data][files]") {
  const TempFolder folder;
  io::save_npy(folder / "x.npy", zeros({3, 2}));
  const std::string good = folder.read("x.npy");
  const auto refused = [&](const std::string& bytes) {
    folder.write("bad.npy", bytes);
    CHECK_THROWS_AS(data::NpyRows::open(folder / "bad.npy"), IoError);
  };
  for (std::size_t n = 0; n < good.size(); n += 3) refused(good.substr(0, n));
  refused(good + "x");
  const auto with = [&](const std::string& old, const std::string& fresh) {
    std::string changed = good;
    refused(changed.replace(changed.find(old), old.size(), fresh));
  };
  with("'<f4'", "'>f4'");
  with("False", "True ");
  with("(3, 2, )", "(9, 2, )");
  with("(3, 2, )", "(3, -2,)");
  io::save_npy(folder / "number.npy", zeros({}));
  CHECK_THROWS_AS(data::NpyRows::open(folder / "number.npy"), IoError);
  CHECK_THROWS_AS(data::NpyRows::open(folder / "nowhere.npy"), IoError);
  CHECK_THROWS_AS(data::NpyRows().rows(List{}), Error);
  // A file that shrinks while it is in use.
  const data::NpyRows rows = data::NpyRows::open(folder / "x.npy");
  folder.write("x.npy", good.substr(0, good.size() - 4));
  CHECK_THROWS_AS(rows.rows(List{2}), IoError);
  CHECK(rows.rows(List{0}).numel() == 2);
}
