#include <cotangent/nn/io/atomic_file.h>

#include <cerrno>
#include <climits>
#include <iterator>
#include <string>
#include <string_view>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cotangent/nn/io/safetensors.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"
#include "tests/system_calls.h"

using namespace ct;
using ct::testing::FailingCalls;
using ct::testing::TempFolder;

namespace {

std::int64_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

mode_t mode_of(const std::string& path) {
  struct stat info = {};
  CHECK(lstat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

std::string message_of(const auto& f) {
  try {
    f();
  } catch (const IoError& error) { return error.what(); }
  return "";
}

}  // namespace

TEST_CASE("io: whatever call of the system fails during a save, the file is the old one or the new one",
          "[io]") {
  // More than the buffer of a file, and less: both ways to write.
  const auto dict = [](std::uint8_t value) {
    const Tensor big = Tensor::allocate({1 << 20}, u8, cpu), small = Tensor::allocate({3}, u8, cpu);
    std::fill_n(big.data<std::uint8_t>(), big.numel(), value);
    std::fill_n(small.data<std::uint8_t>(), small.numel(), value);
    return StateDict{{"big", big}, {"small", small}};
  };
  const StateDict one = dict(1), two = dict(2);
  const TempFolder before;
  io::save(before / "one", one);
  io::save(before / "two", two);
  const std::string old_bytes = before.read("one"), new_bytes = before.read("two");
  const std::int64_t descriptors = open_files();
  int failures = 0, endured = 0;

  const auto check = [&](const char* name, int error, int times, bool exists) {
    for (int nth = 1; nth < 20; ++nth) {
      INFO(name << " number " << nth << ", error " << error << ", times " << times << ", old file "
                << exists);
      const TempFolder folder;
      if (exists) folder.write("model", old_bytes);
      bool failed = false, reached = false;
      {
        const FailingCalls failing(name, nth, error, times);
        try {
          io::save(folder / "model", two);
        } catch (const IoError&) { failed = true; }
        reached = failing.failed() > 0;
        REQUIRE(failing.failed() < 1000);
      }
      const std::string bytes = std::filesystem::exists(folder / "model") ? folder.read("model") : "";
      const bool is_new = bytes == new_bytes, is_old = bytes == (exists ? old_bytes : "");
      REQUIRE((is_new || (failed && is_old)));
      REQUIRE(folder.count() == (bytes.empty() ? 0 : 1));
      REQUIRE(open_files() == descriptors);
      if (!reached) break;
      (failed ? failures : endured) += 1;
      {
        const FailingCalls none("", 0, 0);  // no fsync
        io::write_file(folder / "model", "next");
      }
      REQUIRE(folder.read("model") == "next");
      REQUIRE(folder.count() == 1);
    }
  };
  for (const char* name : {"opendir", "fstat", "fchmod", "write", "pwrite", "fsync", "rename", "close",
                           "stat", "open", "flock"}) {
    check(name, EIO, 1, false);
    check(name, EIO, INT_MAX, true);
    check(name, EINTR, 1, true);
    check(name, EINVAL, 1, true);
    if (name == std::string_view("open") || name == std::string_view("flock"))
      for (const int error : {ENOLCK, EOPNOTSUPP, EWOULDBLOCK, EEXIST})
        for (const int times : {1, INT_MAX}) check(name, error, times, true);
  }
  CHECK(failures > 30);
  CHECK(endured > 20);
}

TEST_CASE("io: a file system without locks is one to save to", "[io]") {
  const TempFolder folder;
  for (const int error : {ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL}) {
    const FailingCalls failing("flock", 1, error, INT_MAX);
    io::write_file(folder / "a", std::to_string(error));
    CHECK(failing.failed() == 1);
    CHECK(folder.read("a") == std::to_string(error));
  }
  // Who takes each file for a leftover gets no more than some.
  const FailingCalls failing("flock", 1, EWOULDBLOCK, INT_MAX);
  CHECK_THROWS_AS(io::write_file(folder / "a", "b"), IoError);
  CHECK(failing.failed() < 1000);
  CHECK(folder.count() == 1);
}

TEST_CASE("io: a file that could not be written is given up for good", "[io]") {
  const TempFolder folder;
  io::AtomicFile file(folder / "a");
  const std::string big(1 << 20, 'x');
  {
    const FailingCalls failing("write", 1, ENOSPC);
    CHECK_THROWS_AS(file.write(big), IoError);
  }
  CHECK_THROWS_AS(file.write(big), IoError);  // or there would be a hole
  CHECK_THROWS_AS(file.commit(), IoError);
  CHECK(folder.count() == 0);
  io::AtomicFile other(folder / "a");
  other.commit();
  CHECK_THROWS_AS(other.write(big), IoError);
  CHECK_THROWS_AS(other.commit(), IoError);
  CHECK(folder.read("a").empty());
}

TEST_CASE("io: a save asks nobody's umask, and shows a file to nobody else", "[io]") {
  const TempFolder folder;
  const int calls = testing::umask_calls();
  io::write_file(folder / "new", "1");
  CHECK(testing::created_mode() == 0666);
  chmod((folder / "new").c_str(), 0604);
  io::write_file(folder / "new", "2");
  CHECK(testing::created_mode() == 0600);  // until it has that of the old one
  CHECK(mode_of(folder / "new") == 0604);
  CHECK(testing::umask_calls() == calls);

  for (const mode_t mask : {022, 027, 077, 0}) {
    const mode_t old = umask(mask);
    std::filesystem::remove(folder / "masked");
    io::write_file(folder / "masked", "3");
    umask(old);
    CHECK(mode_of(folder / "masked") == (0666 & ~mask));
  }
}

TEST_CASE("io: links that go round in a circle", "[io]") {
  const TempFolder folder;
  std::filesystem::create_symlink("b", folder / "a");
  std::filesystem::create_symlink("a", folder / "b");
  CHECK(message_of([&] { io::write_file(folder / "a", "x"); }).find("circle") != std::string::npos);
  CHECK(std::filesystem::is_symlink(folder / "a"));
  CHECK_THROWS_AS(io::write_file(folder / "a/c", "x"), IoError);
  CHECK_THROWS_AS(io::load(folder / "a"), IoError);
  CHECK_THROWS_AS(io::write_file(std::string("/tmp/a\0b", 8), "x"), IoError);
}
