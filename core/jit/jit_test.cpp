#include <cotangent/core/jit/cuda_text.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/stat.h>

#include <cotangent/core/base/error.h>
#include <cotangent/core/device/in_call.h>
#include <cotangent/core/jit/build_internal.h>
#include <cotangent/core/jit/kernel_internal.h>
#include <cotangent/ops/creation/creation.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"
#include "tests/op_testing.h"
#include "tests/variable.h"

using namespace ct;
using Catch::Matchers::Contains;
using ct::testing::TempFolder;
using ct::testing::Variable;

namespace {

ino_t file_of(const std::string& path) {
  struct stat s {};
  REQUIRE(::stat(path.c_str(), &s) == 0);
  return s.st_ino;
}

const jit::Text kTwice{
    "extern \"C\" __global__ void twice(float* y, long long n) {\n"
    "  long long i = blockIdx.x * 256LL + threadIdx.x;\n"
    "  if (i < n) y[i] *= FACTOR;\n}\n",
    "twice.cu"};

jit::Text by(const char* factor) {
  jit::Text text = kTwice;
  text.code.insert(0, std::string("#define FACTOR ") + factor + '\n');
  return text;
}

}  // namespace

TEST_CASE("a fingerprint tells where parts end", "[jit]") {
  const auto of = [](std::initializer_list<const char*> parts) {
    jit::Fingerprint f;
    for (const char* part : parts) f.add(part);
    return f.text();
  };
  CHECK(of({"ab", "c"}) == of({"ab", "c"}));
  CHECK(of({"ab", "c"}) != of({"a", "bc"}));
  CHECK(of({"ab"}) != of({"ab", ""}));
  CHECK(of({}).size() == 16);
}

TEST_CASE("the cache makes a file once, and again where it is damaged", "[jit]") {
  const TempFolder folder;
  int count = 0;
  bool made = false;
  const auto get = [&] {
    return jit::cached(
        "test", folder.path(), "thing",
        [&](const std::string& to) {
          ++count;
          std::ofstream(to) << "contents";
        },
        &made);
  };
  const std::string file = get();
  CHECK(made);
  std::string contents;
  CHECK(jit::read_whole(file, contents));
  CHECK(contents == "contents");
  CHECK(get() == file);
  CHECK_FALSE(made);
  CHECK(count == 1);
  std::string damaged = jit::read_text("test", file);
  damaged[2] ^= 1;
  std::ofstream(file) << damaged;
  CHECK_FALSE(jit::read_whole(file, contents));
  CHECK(get() == file);
  CHECK(made);
  CHECK(count == 2);
  CHECK(jit::read_whole(file, contents));
  CHECK(contents == "contents");
  // A file that could not be made leaves nothing but the lock.
  CHECK_THROWS_WITH(
      jit::cached("test", folder.path(), "other", [](const std::string&) { throw Error("no"); }),
      Contains("no"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder / "ops"), {}) == 3);
}

TEST_CASE("a text is compiled once, for each architecture", "[jit]") {
  const TempFolder folder;
  const Variable cache("COTANGENT_CACHE", folder.path());
  if (jit::compiler().empty()) {
    CHECK_THROWS_WITH(jit::compiled("test", by("2"), "80"),
                      Contains("[test] there is neither nvcc nor NVRTC"));
    return;
  }
  const std::string file = jit::compiled("test", by("2"), "80");
  const ino_t first = file_of(file);
  std::string code;
  REQUIRE(jit::read_whole(file, code));
  CHECK(code.substr(1, 3) == "ELF");
  CHECK(jit::compiled("test", by("2"), "80") == file);
  CHECK(file_of(file) == first);
  CHECK(jit::compiled("test", by("3"), "80") != file);
  CHECK(jit::compiled("test", by("2"), "90a") != file);
  CHECK_THROWS_WITH(jit::compiled("test", by("2 +"), "80"),
                    Contains("[test] twice.cu does not compile") && Contains("expected an expression"));
}

TEST_CASE("a compiler that is named and is not there", "[jit]") {
  const TempFolder folder;
  const Variable cache("COTANGENT_CACHE", folder.path()), nvcc("COTANGENT_NVCC", folder / "nvcc");
  CHECK(jit::compiler() == folder / "nvcc");
  CHECK_THROWS_WITH(jit::compiled("test", by("2"), "80"),
                    Contains("[test] twice.cu does not compile") && Contains(folder / "nvcc"));
}

TEST_CASE("a kernel of a text runs on the GPU at hand", "[jit][cuda]") {
  const TempFolder folder;
  const Variable cache("COTANGENT_CACHE", folder.path());
  const detail::InCall inside;
  const int device = current_cuda_device();
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, std::int64_t{100'003}}) {
    const Tensor y = full({n}, 1.5, {.device = cuda(device)});
    const CudaArgument arguments[] = {y, n};
    for (const char* factor : {"2", "-3"})  // two modules with a kernel of one name
      jit::launch("test", jit::kernel("test", by(factor), "twice", device), CudaGrid::over(n), arguments);
    CHECK((testing::values(y) == std::vector<double>(static_cast<std::size_t>(n), -9)));
  }
  CHECK_THROWS_WITH(jit::kernel("test", by("2"), "thrice", device),
                    Contains("[test] twice.cu has no kernel thrice"));
  const jit::Kernel kernel = jit::kernel("test", by("2"), "twice", device);
  CHECK(jit::kernel("test", by("2"), "twice", device).function == kernel.function);
  CHECK_THROWS_WITH(jit::launch("test", kernel, {.blocks = 1, .threads = 1025}, {}), Contains("1 to 1024"));
}
