#include <cotangent/core/device/cpu_level.h>

#include <cstdlib>
#include <string>

#include "tests/catch.h"

TEST_CASE("the kernels are those of one of the library's levels") {
  const auto levels = ct::cpu_levels();
  REQUIRE(!levels.empty());
  const std::string level = ct::cpu_level();
  CHECK(std::string(levels[static_cast<std::size_t>(ct::detail::cpu_level_index())]) == level);
  if (const char* wanted = std::getenv("COTANGENT_CPU")) CHECK(level == wanted);
}
