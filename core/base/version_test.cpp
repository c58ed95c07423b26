#include <cotangent/core/base/version.h>

#include <cstring>
#include <string>
#include <string_view>

#include <cotangent/core/device/device.h>

#include "tests/catch.h"

namespace ct {

TEST_CASE("the version is one everywhere", "[version]") {
  const std::string numbers = std::to_string(COTANGENT_VERSION_MAJOR) + '.' +
                              std::to_string(COTANGENT_VERSION_MINOR) + '.' +
                              std::to_string(COTANGENT_VERSION_PATCH);
  CHECK(numbers == COTANGENT_VERSION_STRING);
  CHECK(version() == numbers);
  CHECK(build_info().version == numbers);
}

TEST_CASE("build_info says how the library was built", "[version]") {
  const BuildInfo& info = build_info();
  for (const char* text : {info.version, info.commit, info.compiler, info.build_type, info.flags,
                           info.sanitizers, info.cuda, info.cuda_architectures})
    REQUIRE(text != nullptr);
  const std::string_view commit = info.commit;
  const std::string_view digits = commit.substr(0, commit.find('-'));
  CHECK((commit == "unknown" ||
         (digits.size() == 12 && digits.find_first_not_of("0123456789abcdef") == std::string_view::npos)));
  CHECK(std::strchr(info.compiler, ' ') != nullptr);
  CHECK((*info.cuda != 0) == built_with_cuda());
  CHECK((*info.cuda_architectures != 0) == built_with_cuda());
  // Nothing in it tells where it was built.
  for (const char* text : {info.compiler, info.flags, info.cuda})
    CHECK(std::string_view(text).find('/') == std::string_view::npos);
}

}  // namespace ct
