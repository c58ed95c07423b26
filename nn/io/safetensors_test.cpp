#include <cotangent/nn/io/safetensors.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <cotangent/core/device/parallel.h>
#include <cotangent/nn/io/atomic_file.h>
#include <cotangent/nn/io/safetensors_internal.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::bytes_of;
using ct::testing::TempFolder;
using ct::testing::tensor_of;

namespace {

std::string safetensors_bytes(const std::string& header, const std::string& data) {
  std::string file(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  return file + header + data;
}

StateDict load_text(const std::string& file) {
  const auto source = io::open_memory(std::as_bytes(std::span(file)), "memory");
  return io::load_safetensors(*source).tensors;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && bytes_of(a) == bytes_of(b);
}

}  // namespace

TEST_CASE("safetensors: what is saved comes back, bit by bit and in order", "[io]") {
  const TempFolder folder;
  const std::string path = folder / "a.safetensors";
  StateDict dict;
  dict.set("z.first", tensor_of<std::uint8_t>({3}, {1, 2, 255}));
  dict.set("f64", tensor_of<double>({2, 2}, {1.5, -0.0, std::nan(""), 1e300}));
  dict.set("f32", tensor_of<float>({}, {3.25f}));
  dict.set("empty", tensor_of<float>({0, 4}, {}));
  dict.set("i64", tensor_of<std::int64_t>({2}, {INT64_MIN, INT64_MAX}));
  dict.set("i32", tensor_of<std::int32_t>({1}, {-7}));
  dict.set("half", tensor_of<Half>({2}, {Half(1.0f), Half(-2.0f)}));
  dict.set("bf16", tensor_of<BFloat16>({1}, {BFloat16(3.0f)}));
  Tensor flags = Tensor::allocate({2}, ct::boolean, cpu);
  flags.data<bool>()[0] = true, flags.data<bool>()[1] = false;
  dict.set("bool", flags);
  dict.set_value("steps", 7);
  dict.set_value("lr", 0.1);
  dict.set_value("worst", -std::numeric_limits<double>::infinity());
  dict.set_value("on", true);
  dict.set_value("text", "a \"quoted\" line\n");
  io::save(path, dict, {{"by", "a test"}});

  const io::SafetensorsFile file = io::load_file(path);
  CHECK(file.metadata == io::Metadata{{"by", "a test"}});
  REQUIRE(file.tensors.size() == dict.size());
  auto expected = dict.begin();
  for (const auto& [name, tensor] : file.tensors) {
    CHECK(name == expected->first);
    CHECK(same_bits(tensor, expected->second));
    ++expected;
  }
  CHECK(file.tensors.values() == dict.values());
  CHECK(file.tensors.value<double>("steps") == 7);
  CHECK_THROWS_AS(file.tensors.value<bool>("steps"), ValueError);
  CHECK_THROWS_AS(file.tensors.value<bool>("nothing"), ValueError);
  CHECK_THROWS_AS(file.tensors.at("nothing"), ValueError);
}

TEST_CASE("safetensors: a transposed view is saved in row-major order", "[io]") {
  const TempFolder folder;
  const Tensor m = tensor_of<float>({2, 3}, {0, 1, 2, 3, 4, 5});
  const Tensor t = Tensor::from_storage(m.impl()->storage, {3, 2}, {1, 3}, 0, f32);
  io::save(folder / "t", StateDict{{"t", t}});
  CHECK(same_bits(io::load(folder / "t")["t"], tensor_of<float>({3, 2}, {0, 3, 1, 4, 2, 5})));
}

TEST_CASE("safetensors: a file written by the reference implementation", "[io]") {
  // safetensors.numpy.save({"b": [[1, 2]] i32, "a": 0.5 f32}, metadata={"format": "np"})
  const std::string header =
      R"({"__metadata__":{"format":"np"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"I32","shape":[1,2],"data_offsets":[4,12]}}   )";
  std::string data("\x00\x00\x00\x3f\x01\x00\x00\x00\x02\x00\x00\x00", 12);
  const StateDict dict = load_text(safetensors_bytes(header, data));
  CHECK(same_bits(dict["a"], tensor_of<float>({}, {0.5f})));
  CHECK(same_bits(dict["b"], tensor_of<std::int32_t>({1, 2}, {1, 2})));
  CHECK(load_text(safetensors_bytes("{}", "")).empty());
}

TEST_CASE("safetensors: formats without a dtype here become one that holds them", "[io]") {
  const auto read = [](const std::string& dtype, std::int64_t count, const std::string& data) {
    return load_text(safetensors_bytes(R"({"x":{"dtype":")" + dtype + R"(","shape":[)" +
                                           std::to_string(count) + R"(],"data_offsets":[0,)" +
                                           std::to_string(data.size()) + "]}}",
                                       data))["x"];
  };
  CHECK(same_bits(read("I8", 3, "\x01\x80\xff"), tensor_of<std::int32_t>({3}, {1, -128, -1})));
  CHECK(same_bits(read("I16", 2, std::string("\x00\x80\xff\x7f", 4)),
                  tensor_of<std::int32_t>({2}, {-32768, 32767})));
  CHECK(same_bits(read("U16", 2, std::string("\x00\x80\xff\xff", 4)),
                  tensor_of<std::int32_t>({2}, {32768, 65535})));
  CHECK(same_bits(read("U32", 1, "\xff\xff\xff\xff"), tensor_of<std::int64_t>({1}, {4294967295})));
  CHECK(read("I8", 0, "").shape() == Shape{0});
  // Every number of 8 bits.
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const std::vector<double> e4m3 = read("F8_E4M3", 256, all).to_vector<double>(),
                            e5m2 = read("F8_E5M2", 256, all).to_vector<double>();
  for (int i = 0; i < 256; ++i) {
    CAPTURE(i);
    const double sign = i < 128 ? 1 : -1;
    const auto number = [&](int exponent, int mantissa, int bits, int bias) {
      const double part = mantissa / std::exp2(bits);
      return sign * (exponent == 0 ? std::ldexp(part, 1 - bias) : std::ldexp(1 + part, exponent - bias));
    };
    const auto at = static_cast<std::size_t>(i);
    if ((i & 127) == 127)
      CHECK(std::isnan(e4m3[at]));
    else
      CHECK(e4m3[at] == number(i >> 3 & 15, i & 7, 3, 7));
    if ((i >> 2 & 31) < 31)
      CHECK(e5m2[at] == number(i >> 2 & 31, i & 3, 2, 15));
    else if ((i & 3) == 0)
      CHECK(e5m2[at] == sign * std::numeric_limits<double>::infinity());
    else
      CHECK(std::isnan(e5m2[at]));
  }
}

TEST_CASE("safetensors: malformed files are refused with a reason", "[io]") {
  const auto tensor = [](const std::string& fields) { return "{\"x\":{" + fields + "}}"; };
  const auto bad = [](const std::string& header, const std::string& data, const std::string& reason) {
    INFO(header);
    try {
      load_text(safetensors_bytes(header, data));
      FAIL_CHECK("was accepted");
    } catch (const IoError& error) {
      INFO(error.what());
      CHECK(std::string(error.what()).starts_with("[load] 'memory': "));
      CHECK(std::string(error.what()).find(reason) != std::string::npos);
    }
  };
  const std::string four(4, 'x');
  bad("", "", "does not begin with");
  bad("[]", "", "does not begin with");
  bad("{", "", "not valid JSON");
  bad("{} x", "", "not valid JSON");
  bad("{\"x\":1}", "", "a number");
  bad("{\"x\":[]}", "", "a list");
  bad("{\"x\":null}", "", "null");
  bad("{\"\":{}}", "", "without a name");
  bad(tensor(R"("dtype":"F32","shape":[1])"), four, "incomplete");
  bad(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), four, "two data_offsets");
  bad(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"), four, "a number");
  bad(tensor(R"("dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4])"), four, "twice");
  bad(tensor(R"("dtype":"F32","shape":[1],"more":1,"data_offsets":[0,4])"), four, "does not know");
  bad(tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), four, "negative");
  bad(tensor(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])"), four, "fraction");
  bad(tensor(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])"), four, "a list");
  bad(tensor(R"("dtype":"F32","shape":{"a":{}},"data_offsets":[0,4])"), four, "an object");
  bad(tensor(R"("dtype":1,"shape":[1],"data_offsets":[0,4])"), four, "a number");
  bad(tensor(R"("dtype":"F8_E8M0","shape":[4],"data_offsets":[0,4])"), four, "F8_E8M0");
  bad(tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])"), four, "8 dimensions");
  bad(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), four, "its shape needs 8");
  bad(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])"), four, "truncated");
  bad(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), four, "truncated");
  bad(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,0])"), four, "truncated");
  bad(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[1,5])"), four + "x", "gaps");
  bad(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), four + "x", "after the last tensor");
  bad(tensor(R"("dtype":"F32","shape":[4611686018427387904,4,4],"data_offsets":[0,4])"), four, "2^63");
  bad(tensor(R"("dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0])"), "", "2^63");
  bad(tensor(R"("dtype":"BOOL","shape":[1],"data_offsets":[0,1])"), "\x02", "only 0 and 1");
  const std::string field = R"({"dtype":"U8","shape":[2],"data_offsets":[)";
  bad("{\"a\":" + field + "0,2]},\"b\":" + field + "1,3]}}", "abc", "overlap");
  bad("{\"a\":" + field + "0,2]},\"a\":" + field + "2,4]}}", "abcd", "twice");
  bad(R"({"__metadata__":{"a":1}})", "", "a number");
  bad(R"({"__metadata__":{"a":"1","a":"2"}})", "", "twice");
  bad(R"({"__metadata__":{},"__metadata__":{}})", "", "twice");
  bad(R"({"__metadata__":{"cotangent.values":"{"}})", "", "not valid JSON");
  bad(R"({"__metadata__":{"cotangent.values":"{\"a\":[[[[1]]]]}"}})", "", "nested");
  bad(R"({"__metadata__":{"cotangent.values":"{\"a\":[1]}"}})", "", "neither");
  bad(R"({"__metadata__":{"cotangent.values":"{\"a\":18446744073709551615}"}})", "", "63 bits");
  bad(std::string(100000, '{'), "", "");
  bad("{\"a\":" + std::string(100000, '['), "", "");

  for (const std::string& file : {std::string(), std::string("1234567"), std::string(8, '\xff'),
                                  std::string("\x10\0\0\0\0\0\0\0{}", 10)})
    CHECK_THROWS_AS(load_text(file), IoError);
}

TEST_CASE("safetensors: every truncation of a file is refused", "[io]") {
  const TempFolder folder;
  io::save(folder / "a",
           StateDict{{"w", tensor_of<float>({3}, {1, 2, 3})}, {"b", tensor_of<double>({1}, {4})}});
  const std::string whole = folder.read("a");
  for (std::size_t n = 0; n < whole.size(); ++n) CHECK_THROWS_AS(load_text(whole.substr(0, n)), IoError);
  CHECK_THROWS_AS(load_text(whole + "x"), IoError);
}

TEST_CASE("safetensors: no bit of a file changes without being noticed", "[io]") {
  const TempFolder folder;
  StateDict dict{{"w.first", tensor_of<float>({3}, {1, 2, 3})},
                 {"b", tensor_of<double>({2, 1}, {4, 5})},
                 {"empty", tensor_of<float>({0}, {})},
                 {"t", tensor_of<std::uint8_t>({5}, {1, 2, 3, 4, 5})}};
  dict.set_value("steps", 7);
  dict.set_value("lr", 1e-3);
  io::save(folder / "a", dict, {{"format", "pt"}});
  std::string file = folder.read("a");
  CHECK(load_text(file).size() == 4);
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    const auto flip = [&] { file[bit / 8] = static_cast<char>(file[bit / 8] ^ 1 << bit % 8); };
    INFO("bit " << bit);
    flip();
    CHECK_THROWS_AS(load_text(file), IoError);
    flip();
  }
  file.back() = 0;
  CHECK_THROWS_WITH(load_text(file), Catch::Matchers::Contains("tensor 't' has the checksum"));

  // A large tensor is summed up in pieces, by several threads.
  const Tensor big = Tensor::allocate({5 << 20}, u8, cpu);
  for (std::int64_t i = 0; i < big.numel(); ++i)
    big.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 7);
  io::save(folder / "big", StateDict{{"big", big}});
  file = folder.read("big");
  CHECK(same_bits(load_text(file)["big"], big));
  for (const std::size_t at : {file.size() - big.numel(), file.size() - 2500000, file.size() - 1}) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    CHECK_THROWS_AS(load_text(damaged), IoError);
  }
}

TEST_CASE("io: errors name the path and what to do", "[io]") {
  const TempFolder folder;
  const StateDict dict{{"x", tensor_of<float>({1}, {1})}};
  const auto message = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const IoError& error) { return error.what(); }
    return "no IoError";
  };
  CHECK(message([&] {
          io::load(folder / "none");
        }).find("none': No such file or directory; check the path") != std::string::npos);
  CHECK(message([&] { io::load(folder.path()); }).find("not a regular file") != std::string::npos);
  CHECK(message([&] { io::save(folder / "no/such/folder/x", dict); }).find("create the folder first") !=
        std::string::npos);
  CHECK(message([&] { io::save(folder.path(), dict); }).find("is a folder") != std::string::npos);
  CHECK(message([&] { io::save("", dict); }).find("path is empty") != std::string::npos);
  CHECK(message([&] {
          io::save(folder / "x", StateDict{{"__metadata__", tensor_of<float>({1}, {1})}});
        }).find("another name") != std::string::npos);
  CHECK(message([&] {
          io::save(folder / "x", dict, {{"cotangent.values", "oops"}});
        }).find("another key") != std::string::npos);
  CHECK(message([&] {
          io::save(folder / "x", StateDict{{"\xff", tensor_of<float>({1}, {1})}});
        }).find("UTF-8") != std::string::npos);
  mkfifo((folder / "pipe").c_str(), 0600);
  CHECK(message([&] { io::load(folder / "pipe"); }).find("not a regular file") != std::string::npos);
  CHECK(folder.count() == 1);  // the pipe: no temporary file is left
}

TEST_CASE("io: a save that fails leaves the old file and no rubbish", "[io]") {
  const TempFolder folder;
  const std::string path = folder / "model";
  io::save(path, StateDict{{"x", tensor_of<float>({1}, {1})}});
  const std::string before = folder.read("model");

  // A limit on file sizes stands in for a full disk. It is the child's own.
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    set_num_threads(1);  // ThreadSanitizer ends a child that starts threads
    try {
      io::save(path, StateDict{{"x", Tensor::allocate({1 << 20}, u8, cpu)}});
      _exit(1);
    } catch (const IoError& error) {
      _exit(std::string(error.what()).find("can't write") != std::string::npos ? 0 : 2);
    } catch (...) { _exit(3); }
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(folder.read("model") == before);
  CHECK(folder.count() == 1);

  if (access("/dev/full", W_OK) == 0) CHECK_THROWS_AS(io::save("/dev/full", StateDict{}), IoError);
  if (geteuid() != 0) {
    chmod(folder.path().c_str(), 0500);
    CHECK_THROWS_AS(io::save(path, StateDict{}), IoError);
    chmod(folder.path().c_str(), 0700);
    CHECK(folder.read("model") == before);
  }
}

TEST_CASE("io: an atomic file keeps permissions, follows links and cleans up", "[io]") {
  const TempFolder folder;
  io::write_file(folder / "a", "one");
  chmod((folder / "a").c_str(), 0640);
  std::filesystem::create_symlink("a", folder / "link");
  io::write_file(folder / "link", "two");
  CHECK(folder.read("a") == "two");
  CHECK(std::filesystem::is_symlink(folder / "link"));
  struct stat info;
  stat((folder / "a").c_str(), &info);
  CHECK((info.st_mode & 07777) == 0640);

  // The next save removes a killed process's temporary file, and not a living one's.
  folder.write(".a.abcdef.tmp", "left behind");
  {
    io::AtomicFile writing(folder / "a");
    writing.write("three");
    io::write_file(folder / "a", "four");
    CHECK(folder.count() == 3);
    writing.commit();
  }
  CHECK(folder.read("a") == "three");
  { io::AtomicFile given_up(folder / "a"); }
  CHECK(folder.count() == 2);
}

TEST_CASE("io: SIGKILL during a save leaves the old or the new file", "[io]") {
  const TempFolder folder;
  const std::string path = folder / "model";
  io::save(path, StateDict{{"x", tensor_of<std::int64_t>({1}, {-1})}});
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (std::int64_t n = 0;; ++n) {
        Tensor big = Tensor::allocate({40000}, i64, cpu);
        std::fill_n(big.data<std::int64_t>(), big.numel(), n);
        io::save(path, StateDict{{"x", big}});
      }
    }
    usleep(static_cast<useconds_t>(random() % 20000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const StateDict dict = io::load(path);
    const Tensor& x = dict["x"];
    const std::int64_t first = x.data<std::int64_t>()[0];
    CHECK(std::all_of(x.data<std::int64_t>(), x.data<std::int64_t>() + x.numel(),
                      [&](std::int64_t v) { return v == first; }));
  }
  io::save(path, StateDict{});
  CHECK(folder.count() == 1);
}
