#include <cotangent/nn/data/idx.h>

#include <cstring>

#include <zlib.h>

#include <cotangent/nn/data/idx_internal.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::bytes_of;
using ct::testing::TempFolder;
using ct::testing::tensor_of;

namespace {

std::string idx_bytes(int code, const std::vector<std::uint32_t>& sizes, const std::string& data) {
  std::string bytes{0, 0, static_cast<char>(code), static_cast<char>(sizes.size())};
  for (std::uint32_t s : sizes)
    for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(s >> shift);
  return bytes + data;
}

std::string gzip(const std::string& bytes) {
  std::string packed(compressBound(static_cast<uLong>(bytes.size())) + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

Tensor idx_of(const std::string& bytes) {
  return data::read_idx(*io::open_memory(std::as_bytes(std::span(bytes)), "memory"));
}

}  // namespace

TEST_CASE("idx: all element types, packed and not", "[data]") {
  const auto check = [](const std::string& bytes, const Tensor& expected) {
    for (const std::string& form : {bytes, gzip(bytes)}) {
      const Tensor t = idx_of(form);
      CHECK(t.dtype() == expected.dtype());
      CHECK(t.shape() == expected.shape());
      CHECK(bytes_of(t) == bytes_of(expected));
    }
  };
  check(idx_bytes(0x08, {2, 1}, "\x01\xff"), tensor_of<std::uint8_t>({2, 1}, {1, 255}));
  check(idx_bytes(0x09, {2}, "\x01\xff"), tensor_of<std::int32_t>({2}, {1, -1}));
  check(idx_bytes(0x0b, {2}, std::string("\x01\x00\xff\xfe", 4)), tensor_of<std::int32_t>({2}, {256, -2}));
  check(idx_bytes(0x0c, {1}, std::string("\x00\x01\x00\x00", 4)), tensor_of<std::int32_t>({1}, {65536}));
  check(idx_bytes(0x0d, {1}, std::string("\x3f\x80\x00\x00", 4)), tensor_of<float>({1}, {1}));
  check(idx_bytes(0x0e, {1}, std::string("\x3f\xf0\x00\x00\x00\x00\x00\x00", 8)),
        tensor_of<double>({1}, {1}));
  check(idx_bytes(0x08, {0, 28, 28}, ""), tensor_of<std::uint8_t>({0, 28, 28}, {}));
}

TEST_CASE("idx: malformed files are refused", "[data]") {
  const auto bad = [](const std::string& bytes, const std::string& reason) {
    for (const std::string& form : {bytes, gzip(bytes)}) {
      try {
        idx_of(form);
        FAIL_CHECK("was accepted");
      } catch (const IoError& error) {
        INFO(error.what());
        CHECK(std::string(error.what()).find(reason) != std::string::npos);
        CHECK(std::string(error.what()).find("'memory'") != std::string::npos);
      }
    }
  };
  bad("", "truncated");
  bad("<html>404 not found</html>", "no IDX file");
  bad(idx_bytes(0x07, {1}, "x"), "no IDX file");
  bad(idx_bytes(0x08, {2}, "x"), "truncated");
  bad(idx_bytes(0x08, {1}, "xx"), "goes on");
  bad(idx_bytes(0x08, {1, 1, 1, 1, 1, 1, 1, 1, 1}, "x"), "9 axes");
  bad(idx_bytes(0x0e, {0xffffffff, 0xffffffff}, ""), "more than the file can hold");
  bad(idx_bytes(0x0e, {0xffffffff, 0xffffffff, 0xffffffff}, ""), "more than the file can hold");
  bad(idx_bytes(0x0e, {0, 0xffffffff, 0xffffffff, 0xffffffff}, ""), "more than the file can hold");
  bad(idx_bytes(0x08, {2281964560, 4294967056, 0}, ""), "more than the file can hold");  // 2^63 < n < 2^64
  const std::string packed = gzip(idx_bytes(0x08, {1000}, std::string(1000, 'a')));
  for (std::size_t n = 0; n < packed.size(); ++n) CHECK_THROWS_AS(idx_of(packed.substr(0, n)), IoError);
  // The checksum finds a changed byte, unless the change means nothing to deflate.
  const std::string whole = bytes_of(idx_of(packed));
  int found = 0;
  for (std::size_t n = 10; n < packed.size(); ++n) {
    std::string changed = packed;
    changed[n] = static_cast<char>(changed[n] ^ 0x10);
    try {
      const std::string read = bytes_of(idx_of(changed));
      CHECK(read == whole);
    } catch (const IoError&) { ++found; }
  }
  CHECK(found > static_cast<int>(packed.size()) / 2);
  CHECK_THROWS_AS(data::read_idx("/nowhere/at/all"), IoError);
}

TEST_CASE("idx: a folder in MNIST's layout", "[data]") {
  const TempFolder folder;
  CHECK_THROWS_AS(data::idx(folder.path(), data::train), IoError);
  folder.write("train-images-idx3-ubyte.gz",
               gzip(idx_bytes(8, {2, 1, 3}, std::string("\x00\xff\x33\x01\x02\x03", 6))));
  CHECK_THROWS_AS(data::idx(folder.path(), data::train), IoError);
  folder.write("train-labels-idx1-ubyte", idx_bytes(8, {2}, "\x07\x03"));
  const data::ImageDataset images = data::idx(folder.path(), data::train);
  CHECK(images.size() == 2);
  CHECK(images.classes() == 8);
  const auto [x, y] = images.get_batch(std::vector<std::int64_t>{1, 0});
  CHECK(x.shape() == Shape{2, 1, 1, 3});
  CHECK(x.to_vector<float>() == std::vector<float>{1 / 255.0f, 2 / 255.0f, 3 / 255.0f, 0, 1, 0.2f});
  CHECK(y.to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 7});
  CHECK(images.get(0).second.item<int>() == 7);
  CHECK(data::idx(folder.path(), data::train, {.mean = 0.5, .std = 0.5}).get(0).first.to_vector<float>()[1] ==
        1);
  folder.write("train-labels-idx1-ubyte", idx_bytes(8, {3}, "\x07\x03\x01"));
  CHECK_THROWS_AS(data::idx(folder.path(), data::train), IoError);
  folder.write("train-labels-idx1-ubyte", idx_bytes(8, {2, 1}, "\x07\x03"));
  CHECK_THROWS_AS(data::idx(folder.path(), data::train), IoError);
}
