#include <string>

#include <cotangent/core/base/version.h>
#include <cotangent/core/device/device.h>
#include <cotangent/core/device/gpu_code_internal.h>
#include <cotangent/core/device/runtime_internal.h>

#include "tests/catch.h"

namespace ct {

using detail::has_code_for;
using detail::missing_code;

TEST_CASE("which GPUs a list of architectures has code for", "[device]") {
  // Machine code: the same generation, from its own number on.
  CHECK(has_code_for("80-real", 8, 0));
  CHECK(has_code_for("80-real", 8, 9));
  CHECK_FALSE(has_code_for("86-real", 8, 0));
  CHECK_FALSE(has_code_for("80-real", 9, 0));
  // PTX: everything from its number on.
  CHECK(has_code_for("80-virtual", 9, 0));
  CHECK(has_code_for("90-virtual", 12, 0));
  CHECK_FALSE(has_code_for("90-virtual", 8, 9));
  CHECK(has_code_for("80", 9, 0));
  // Code with the instructions of one GPU runs on that one, code for a family in the family.
  CHECK(has_code_for("90a-real", 9, 0));
  CHECK(has_code_for("90a", 9, 0));
  CHECK_FALSE(has_code_for("90a-virtual", 10, 0));
  CHECK_FALSE(has_code_for("100a", 10, 3));
  CHECK(has_code_for("100f-real", 10, 3));
  CHECK_FALSE(has_code_for("100f-virtual", 12, 0));
  // Lists, as CMake and as build_info() write them.
  for (const char* list :
       {"80-real 86-real 89-real 90a-real 90-virtual", "80-real;86-real;89-real;90a-real;90-virtual"}) {
    CHECK(has_code_for(list, 8, 0));
    CHECK(has_code_for(list, 8, 7));
    CHECK(has_code_for(list, 9, 0));
    CHECK(has_code_for(list, 12, 1));
    CHECK_FALSE(has_code_for(list, 7, 5));
  }
  CHECK_FALSE(has_code_for("", 9, 0));
  CHECK_FALSE(has_code_for("75-virtual", 7, 5));  // older than the kernels allow for
}

TEST_CASE("a build without code for a GPU says what to build", "[device]") {
  CHECK(missing_code("90a-real", 8, 6) ==
        "the library was built for 90a-real; this GPU is 8.6; rebuild with "
        "-DCOTANGENT_CUDA_ARCHITECTURES=86-real");
  CHECK(missing_code("80-real", 9, 0).ends_with("ARCHITECTURES=90a-real"));
  CHECK(missing_code("80-real", 7, 5) ==
        "the library was built for 80-real; this GPU is 7.5, older than the oldest that is supported, 8.0");
}

TEST_CASE("a GPU that the build has no code for is refused by name", "[device]") {
  if (detail::runtime::device_count() == 0 || cuda_is_available())
    return;  // gpu_suite.sh 86-real, on another GPU
  CHECK(cuda_device_count() == 0);
  CHECK(best_device() == cpu);
  try {
    cuda_properties(0);
    FAIL("no exception");
  } catch (const DeviceError& error) {
    CHECK_THAT(error.what(), Catch::Matchers::Contains("can't be used: the library was built for"));
    CHECK_THAT(error.what(), Catch::Matchers::Contains("-DCOTANGENT_CUDA_ARCHITECTURES="));
  }
}

TEST_CASE("an available GPU is one that there is code for", "[device][cuda]") {
  const DeviceProperties& gpu = cuda_properties(best_device().index);
  CHECK(has_code_for(build_info().cuda_architectures, gpu.compute_major, gpu.compute_minor));
}

}  // namespace ct
