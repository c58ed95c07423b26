#include <cotangent/core/base/printable.h>

#include <string>

#include "tests/catch.h"

using ct::printable;

TEST_CASE("printable: text that a terminal can show, and nothing else", "[core]") {
  CHECK(printable("").str() == "''");
  CHECK(printable("model.0.weight").str() == "'model.0.weight'");
  CHECK(printable("caf\u00e9 \u6771 \U0001F600").str() == "'caf\u00e9 \u6771 \U0001F600'");
  CHECK(printable("it's\\").str() == "'it\\'s\\\\'");
  CHECK(printable(std::string("\x1b[31m\n\0\x7f", 8)).str() == "'\\x1B[31m\\x0A\\x00\\x7F'");
  CHECK(printable("\u0085\u202e\u200b\ufeff").str() ==
        "'\\xC2\\x85\\xE2\\x80\\xAE\\xE2\\x80\\x8B\\xEF\\xBB\\xBF'");
  CHECK(printable("\xff\xc3\xed\xa0\x80\xf4\x90\x80\x80\xc0\x80x").str() ==
        "'\\xFF\\xC3\\xED\\xA0\\x80\\xF4\\x90\\x80\\x80\\xC0\\x80x'");
  CHECK(ct::escaped("a\n").str() == "a\\x0A");
  // No character is cut, wherever the middle begins and ends.
  for (std::size_t pad = 0; pad < 4; ++pad) {
    std::string text(pad, 'a');
    for (int i = 0; i < 100; ++i) text += "\u6771";
    const std::string shown = printable(text).str();
    CHECK(ct::detail::is_utf8(shown));
    CHECK(shown.find("\\x") == shown.npos);
    CHECK(shown.ends_with("\u6771' (" + std::to_string(text.size()) + " bytes)"));
    CHECK(shown.size() < 200);
  }
  CHECK(printable(std::string(160, 'a')).str() == "'" + std::string(160, 'a') + "'");
  CHECK(ct::printable_path(std::string(4000, 'p')).str().size() == 4002);
  CHECK(ct::printable_list({"a", "b\t"}) == "'a', 'b\\x09'");
  CHECK(ct::printable_list({"a", "b", "c"}, 2) == "'a', 'b', and 1 more");
}
