#include <cotangent/core/cpu_level.h>

#include <cstdlib>
#include <string>

#include <cotangent/core/error.h>
#include <cotangent/ops.h>

#include "tests/catch.h"

using Catch::Matchers::Contains;

TEST_CASE("the kernels are those of one of the library's levels") {
  const auto levels = ct::cpu_levels();
  REQUIRE(!levels.empty());
  const std::string level = ct::cpu_level();
  CHECK(std::string(levels[static_cast<std::size_t>(ct::detail::cpu_level_index())]) == level);
  if (const char* wanted = std::getenv("COTANGENT_CPU")) CHECK(level == wanted);
}

// Run apart, with COTANGENT_CPU=v9: the level is chosen once in a process.
TEST_CASE("an unknown level is refused by every call, and by name", "[.unknown_level]") {
  for (int call = 0; call < 2; ++call) {
    CHECK_THROWS_WITH(ct::cpu_level(), Contains("COTANGENT_CPU is \"v9\"; this library has kernels for: " +
                                                std::string(ct::cpu_levels()[0])));
    CHECK_THROWS_AS(ct::cpu_level(), ct::ValueError);
    CHECK_THROWS_AS(ct::ones({2}), ct::ValueError);
    CHECK_THROWS_AS(ct::empty({2}) + 1, ct::ValueError);
  }
}
