#include <cotangent/nn/io/npy.h>

#include <string>

#include <cotangent/core/memory/allocator.h>
#include <cotangent/nn/io/npy_internal.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::bytes_of;
using ct::testing::TempFolder;
using ct::testing::tensor_of;

namespace {

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

// np.savez_compressed(a=np.arange(6, dtype='<f4').reshape(2, 3), b=np.array(2.5)), NumPy 2.3
const std::string kNpz = from_hex(
    "504b03042d0000000800000021004fe9002affffffffffffffff05001400612e6e70790100100098000000000000005500000000"
    "000000"
    "9bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a176724"
    "16a402"
    "f91a463a0ac69a3a0ab50a64032e063068b007120e4004c40d40bcc00100504b03042d00000008000000210035b43a93ffffffff"
    "ffffff"
    "ff05001400622e6e7079010010008800000000000000470000000000"
    "00009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a1aea3a09e965f54529498179f5f94920a12774bcc294e058a17"
    "672416"
    "a402f91a9a3a0ab50a14012e063060710000504b01022d032d0000000800000021004fe9002a5500000098000000050000000000"
    "000000"
    "000000800100000000612e6e7079504b01022d032d00000008000000210035b43a93470000008800000005000000000000000000"
    "000080"
    "018c000000622e6e7079504b05060000000002000200660000000a0100000000");

std::string npy_bytes(std::string header, const std::string& data) {
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 255) +
         static_cast<char>(header.size() >> 8) + header + data;
}

Tensor npy_of(const std::string& bytes) {
  return io::load_npy(*io::open_memory(std::as_bytes(std::span(bytes)), "memory"));
}
StateDict npz_of(const std::string& bytes) {
  return io::load_npz(*io::open_memory(std::as_bytes(std::span(bytes)), "memory"));
}

}  // namespace

TEST_CASE("npy: arrays come back as they were saved", "[io]") {
  const TempFolder folder;
  const auto round_trip = [&](const Tensor& t) {
    io::save_npy(folder / "t.npy", t);
    CHECK(folder.read("t.npy").size() % 64 == static_cast<std::size_t>(t.nbytes()) % 64);
    const Tensor back = io::load_npy(folder / "t.npy");
    CHECK(back.dtype() == t.dtype());
    CHECK(back.shape() == t.shape());
    CHECK(bytes_of(back) == bytes_of(t));
  };
  round_trip(tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  round_trip(tensor_of<double>({}, {-0.0}));
  round_trip(tensor_of<Half>({1}, {Half(2.0f)}));
  round_trip(tensor_of<std::int64_t>({3}, {1, -2, INT64_MAX}));
  round_trip(tensor_of<std::int32_t>({0, 5}, {}));
  round_trip(tensor_of<std::uint8_t>({2, 1, 1}, {0, 255}));
  CHECK_THROWS_AS(io::save_npy(folder / "b", tensor_of<BFloat16>({1}, {BFloat16(1.0f)})), DTypeError);
}

TEST_CASE("npy: Fortran order becomes strides, big-endian numbers are turned", "[io]") {
  const std::string data("\0\0\0\0\0\0@@\0\0\x80?\0\0\x80@\0\0\0@\0\0\xa0@", 24);
  const Tensor f = npy_of(npy_bytes("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", data));
  CHECK(f.shape() == Shape{2, 3});
  CHECK(f.strides() == Strides{1, 2});
  CHECK(static_cast<const float*>(f.raw_data())[1] == 3);  // element [1, 0] of arange(6).reshape(2, 3)

  const Tensor b = npy_of(npy_bytes("{'descr': '>i4', 'fortran_order': False, 'shape': (3,), }",
                                    std::string("\0\0\0\0\0\0\0\1\0\0\0\2", 12)));
  CHECK(bytes_of(b) == bytes_of(tensor_of<std::int32_t>({3}, {0, 1, 2})));
}

TEST_CASE("npy: malformed arrays are refused", "[io]") {
  const std::string four(4, 'x');
  const auto bad = [](const std::string& bytes) {
    INFO(bytes);
    CHECK_THROWS_AS(npy_of(bytes), IoError);
  };
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
  CHECK(npy_of(npy_bytes(good, four)).numel() == 1);
  bad(npy_bytes(good, "xxx"));
  bad(npy_bytes(good, "xxxxx"));
  bad("\x93NUMPX" + npy_bytes(good, four).substr(6));
  bad(std::string("\x93NUMPY\x04", 7) + npy_bytes(good, four).substr(7));
  for (const char* header : {"",
                             "{",
                             "{}",
                             "[]",
                             "{'descr': '<f4'}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}",
                             "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
                             "{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}",
                             "{'descr': '', 'fortran_order': False, 'shape': (1,)}",
                             "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
                             "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (1",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4, 0)}",
                             "{'descr': '|u1', 'fortran_order': False, 'shape': (2281964560, 4294967056, 0)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,)}"})
    bad(npy_bytes(header, four));
  const std::string whole = npy_bytes(good, four);
  for (std::size_t n = 0; n < whole.size(); ++n) bad(whole.substr(0, n));
}

TEST_CASE("npz: NumPy's own archive", "[io]") {
  const StateDict arrays = npz_of(kNpz);
  REQUIRE(arrays.size() == 2);
  CHECK(bytes_of(arrays["a"]) == bytes_of(tensor_of<float>({2, 3}, {0, 1, 2, 3, 4, 5})));
  CHECK(arrays["a"].shape() == Shape{2, 3});
  CHECK(bytes_of(arrays["b"]) == bytes_of(tensor_of<double>({}, {2.5})));
  CHECK(npz_of(kNpz + "?").size() == 2);  // a byte of comment too many does no harm
}

namespace {

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

// An archive of stored members, each an entry of the directory and, unless it is `shared`, bytes of its own.
struct Zip {
  std::string bytes, directory;
  int members = 0;

  void add(const std::string& name, const std::string& array, const std::string& local_name, int flags = 0,
           bool shared = false) {
    const std::uint32_t crc = io::crc32_continue(0, array.data(), array.size());
    const std::size_t at = shared ? 0 : bytes.size();
    const auto common = [&](std::string& to, const std::string& named, bool late) {
      put(to, 20, 2), put(to, static_cast<std::uint64_t>(flags), 2), put(to, 0, 2), put(to, 0, 4);
      for (const std::uint64_t field : {std::uint64_t{crc}, array.size(), array.size()})
        put(to, late ? 0 : field, 4);
      put(to, named.size(), 2), put(to, 0, 2);
    };
    if (!shared) {
      put(bytes, 0x04034b50, 4), common(bytes, local_name, (flags & 8) != 0);
      bytes += local_name + array;
      if (flags & 8) put(bytes, crc, 4), put(bytes, array.size(), 4), put(bytes, array.size(), 4);
    }
    put(directory, 0x02014b50, 4), put(directory, 20, 2), common(directory, name, false);
    put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 4),
        put(directory, at, 4);
    directory += name;
    ++members;
  }
  std::string whole() const {
    std::string file = bytes + directory;
    put(file, 0x06054b50, 4), put(file, 0, 4);
    for (int i = 0; i < 2; ++i) put(file, static_cast<std::uint64_t>(members), 2);
    put(file, directory.size(), 4), put(file, bytes.size(), 4), put(file, 0, 2);
    return file;
  }
};

std::string refused_npz(const std::string& bytes) {
  try {
    npz_of(bytes);
  } catch (const IoError& error) { return error.what(); }
  return "was accepted";
}

}  // namespace

TEST_CASE("npz: members of the directory that share their bytes are refused", "[io]") {
  const std::string array =
      npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (1000,), }", std::string(4000, 'x'));
  using Catch::Matchers::Contains;
  Zip good;
  good.add("a.npy", array, "a.npy");
  good.add("b.npy", array, "b.npy", 8);  // its header was written before the sizes were known
  good.add("c.npy", array, "c.npy");
  CHECK(npz_of(good.whole()).size() == 3);

  Zip shared;
  shared.add("a.npy", array, "a.npy");
  for (int i = 0; i < 1000; ++i) shared.add("a" + std::to_string(i) + ".npy", array, "", 0, true);
  const auto before = memory_stats(cpu).peak_in_use;
  CHECK_THAT(refused_npz(shared.whole()), Contains("otherwise"));
  CHECK(memory_stats(cpu).peak_in_use == before);  // before any array is read
  Zip twice;
  twice.add("a.npy", array, "a.npy");
  twice.add("a.npy", array, "", 0, true);
  CHECK_THAT(refused_npz(twice.whole()), Contains("overlaps"));

  // A member inside another: its header lies in the other's data.
  Zip inner;
  inner.add("in.npy", array, "in.npy");
  Zip outer;
  outer.add("out.npy", inner.bytes, "out.npy");
  Zip nested = outer;
  nested.directory.clear(), nested.members = 0;
  nested.directory = outer.directory + inner.directory, nested.members = 2;
  const std::size_t offset = nested.directory.size() - 6 - 4;
  std::string where;
  put(where, 30 + 7, 4);
  nested.directory.replace(offset, 4, where);
  CHECK_THAT(refused_npz(nested.whole()), Contains("overlaps"));
}

TEST_CASE("npz: a member's own header says what the directory says", "[io]") {
  using Catch::Matchers::Contains;
  const std::string array = npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "xxxx");
  Zip other_name;
  other_name.add("a.npy", array, "b.npy");
  CHECK_THAT(refused_npz(other_name.whole()), Contains("member 'a.npy' is described otherwise"));
  Zip plain;
  plain.add("a.npy", array, "a.npy");
  // flags, method, checksum, both sizes
  for (const std::size_t at : {6u, 8u, 14u, 18u, 22u}) {
    std::string file = plain.whole();
    file[at] = static_cast<char>(file[at] ^ 2);
    INFO(at);
    CHECK_THAT(refused_npz(file), Contains("described otherwise"));
  }
  // Names are shown as text, whatever they are.
  Zip escape;
  escape.add("\x1b[31m.npy", array, "b.npy");
  CHECK_THAT(refused_npz(escape.whole()), Contains("'\\x1B[31m.npy'"));
}

TEST_CASE("npz: damaged archives are refused", "[io]") {
  for (std::size_t n = 0; n < kNpz.size(); ++n) CHECK_THROWS_AS(npz_of(kNpz.substr(0, n)), IoError);
  // One changed byte anywhere: an error, or (in fields without meaning here) the same arrays.
  for (std::size_t n = 0; n < kNpz.size(); ++n) {
    std::string bytes = kNpz;
    bytes[n] = static_cast<char>(bytes[n] ^ 0x41);
    try {
      for (const auto& [name, array] : npz_of(bytes)) CHECK((array.numel() == 6 || array.numel() == 1));
    } catch (const Error&) {}
  }
  std::string wrong_data = kNpz;
  wrong_data[0x50] = static_cast<char>(wrong_data[0x50] ^ 1);
  CHECK_THROWS_AS(npz_of(wrong_data), IoError);
  CHECK_THROWS_AS(io::load_npz("/nowhere.npz"), IoError);
  std::string wrong_sum = kNpz;  // the checksum in both places
  for (const std::size_t at : {wrong_sum.find("PK\x03\x04") + 14, wrong_sum.find("PK\x01\x02") + 16})
    wrong_sum[at] = static_cast<char>(wrong_sum[at] ^ 1);
  try {
    npz_of(wrong_sum);
    FAIL_CHECK("was accepted");
  } catch (const IoError& error) {
    CHECK(std::string(error.what()).find("member 'a.npy' has the wrong checksum") != std::string::npos);
  }
}
