#include <cstring>
#include <sstream>
#include <streambuf>

#include <cotangent/nn/container.h>
#include <cotangent/nn/io/safetensors.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops/creation/creation.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::bytes_of;
using ct::testing::TempFolder;
using ct::testing::tensor_of;

namespace {

StateDict some() {
  StateDict dict{{"a.weight", tensor_of<float>({2, 2}, {1, 2, 3, 4})},
                 {"b", tensor_of<std::int64_t>({}, {7})}};
  dict.set("wide", tensor_of<double>({3}, {1, 2, 3}));
  dict.set_value("steps", 7);
  return dict;
}

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

// Takes a few bytes and then no more.
struct Narrow : std::streambuf {
  std::streamsize room;
  explicit Narrow(std::streamsize room) : room(room) {}
  std::streamsize xsputn(const char*, std::streamsize n) override {
    const std::streamsize taken = std::min(n, room);
    room -= taken;
    return taken;
  }
  int overflow(int) override { return traits_type::eof(); }
};

}  // namespace

TEST_CASE("streams and memory hold the bytes of a file", "[io]") {
  const TempFolder folder;
  io::save(folder / "f", some(), {{"format", "pt"}});
  const std::string file = folder.read("f");
  std::ostringstream out;
  io::save(out, some(), {{"format", "pt"}});
  CHECK(out.str() == file);
  const std::vector<std::byte> memory = io::save_to_memory(some(), {{"format", "pt"}});
  CHECK(std::string(reinterpret_cast<const char*>(memory.data()), memory.size()) == file);

  std::istringstream in(file);
  for (const StateDict& dict : {io::load(in), io::load(memory), io::load(bytes(file))}) {
    REQUIRE(dict.size() == 3);
    CHECK(dict.begin()->first == "a.weight");
    CHECK(bytes_of(dict.at("wide")) == bytes_of(some().at("wide")));
    CHECK(dict.value<std::int64_t>("steps") == 7);
  }
  // Reads from the stream's position on.
  std::istringstream later("before" + file);
  later.seekg(6);
  CHECK(io::load(later).size() == 3);
}

TEST_CASE("streams and memory that are cut, damaged or full", "[io]") {
  const std::vector<std::byte> memory = io::save_to_memory(some());
  const std::string good(reinterpret_cast<const char*>(memory.data()), memory.size());
  for (std::size_t n = 0; n < good.size(); n += 5) {
    CHECK_THROWS_AS(io::load(bytes(good.substr(0, n))), IoError);
    std::istringstream in(good.substr(0, n));
    CHECK_THROWS_AS(io::load(in), IoError);
    Narrow narrow(static_cast<std::streamsize>(n));
    std::ostream out(&narrow);
    CHECK_THROWS_AS(io::save(out, some()), IoError);
  }
  for (std::size_t n = 0; n < good.size(); n += 7) {
    std::string changed = good;
    changed[n] = static_cast<char>(changed[n] ^ 4);
    CHECK_THROWS_AS(io::load(bytes(changed)), IoError);
  }
  std::istringstream more(good + "x");
  CHECK_THROWS_AS(io::load(more), IoError);
  std::istringstream failed(good);
  failed.setstate(std::ios::failbit);
  CHECK_THROWS_AS(io::load(failed), IoError);
  std::istringstream huge(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{", 9));
  CHECK_THROWS_AS(io::load(huge), IoError);
  CHECK_THROWS_AS(io::save_to_memory(some(), {{"cotangent.x", ""}}), IoError);
}

TEST_CASE("single tensors, modules and optimizers are saved as they are", "[io]") {
  const TempFolder folder;
  const Tensor t = tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  io::save(folder / "t", t);
  CHECK(bytes_of(io::load_tensor(folder / "t")) == bytes_of(t));
  std::stringstream stream;
  io::save(stream, t.transpose(0, 1));
  CHECK(io::load_tensor(stream).to_vector<float>() == std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK(bytes_of(io::load_tensor(io::save_to_memory(t))) == bytes_of(t));
  CHECK_THROWS_AS(io::load_tensor(io::save_to_memory(some())), IoError);
  CHECK_THROWS_AS(io::load_tensor(io::save_to_memory(StateDict{})), IoError);
  CHECK_THROWS_AS(io::save(folder / "none", Tensor()), ValueError);

  const nn::Sequential model(nn::Linear(3, 4), nn::Linear(4, 2));
  io::save(folder / "m", model);
  io::save(folder / "w", nn::Linear(3, 4).weight());
  CHECK(io::load_tensor(folder / "w").shape() == Shape{4, 3});
  nn::Sequential other(nn::Linear(3, 4), nn::Linear(4, 2)), wrong(nn::Linear(3, 5));
  io::load(folder / "m", other);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(bytes_of(other.parameters()[i]) == bytes_of(model.parameters()[i]));
  std::stringstream through;
  io::save(through, model);
  nn::Sequential third(nn::Linear(3, 4), nn::Linear(4, 2));
  io::load(through, third);
  CHECK(bytes_of(third.parameters()[2]) == bytes_of(model.parameters()[2]));
  const std::string before = bytes_of(wrong.parameters()[0]);
  CHECK_THROWS_AS(io::load(folder / "m", wrong), ValueError);
  CHECK(bytes_of(wrong.parameters()[0]) == before);

  optim::SGD sgd(model.parameters(), {.lr = 0.25}), resumed(other.parameters());
  io::load(io::save_to_memory(sgd), resumed);
  CHECK(resumed.lr() == 0.25);
}
