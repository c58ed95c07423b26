#include <cotangent/core/version.h>

#include <algorithm>
#include <string>

#include "tests/catch.h"

TEST_CASE("the library says what it was built from", "[version]") {
  const ct::Version& v = ct::version();
  const std::string number = v.number, commit = v.commit;
  CHECK(std::count(number.begin(), number.end(), '.') == 2);
  CHECK(number.find_first_not_of("0123456789.") == std::string::npos);
  CHECK((commit == "unknown" || commit.find_first_not_of("0123456789abcdef") >= 12));
  CHECK_FALSE(std::string(v.compiler).empty());
}
