#include <cotangent/nn/io/json.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <cotangent/core/base/error.h>

#include "tests/catch.h"

using namespace ct;
using io::Json;

namespace {

Json parse(const std::string& text) {
  const std::string name = "memory";
  return io::parse_json({"test", name, "the text is", "look at it"}, text);
}

}  // namespace

TEST_CASE("json: values come with their kinds", "[io]") {
  const Json all =
      parse(R"( {"z": null, "b": true, "i": -3, "u": 18446744073709551615, "d": 0.5, "t": "é\n\u0041",
                             "l": [1, [], {}], "big": 18446744073709551616} )");
  CHECK(all.is_object());
  CHECK(all.find("z")->is_null());
  CHECK(*all.find("b")->boolean());
  CHECK(all.find("i")->integer() == -3);
  CHECK(!all.find("i")->unsigned_integer());
  CHECK(!all.find("u")->integer());
  CHECK(all.find("u")->unsigned_integer() == UINT64_MAX);
  CHECK(!all.find("big")->unsigned_integer());
  CHECK(all.find("big")->number() == 18446744073709551616.0);
  CHECK(all.find("d")->number() == 0.5);
  CHECK(!all.find("d")->integer());
  CHECK(*all.find("t")->text() == "\u00e9\nA");
  CHECK(all.find("l")->list()->size() == 3);
  CHECK(!all.find("none"));
  CHECK(!all.find("l")->find("none"));
  CHECK(all.members()->front().first == "b");  // sorted
  CHECK(std::string(all.find("l")->kind()) == "a list");
  CHECK_THROWS_WITH(parse("{"), "[test] 'memory': the text is not valid JSON near byte 2; look at it");
  CHECK(parse(std::string(64, '[') + std::string(64, ']')).list());
  CHECK_THROWS_AS(parse(std::string(65, '[') + std::string(65, ']')), IoError);
}

TEST_CASE("json: what is written comes back", "[io]") {
  const Json value = Json::object({{"z", Json::List{1, -2, UINT64_MAX, INT64_MIN, true, false, nullptr}},
                                   {"a\"\\\n\x01\x7f", "\u00e9\U0001F600/"},
                                   {"empty", Json::object({})},
                                   {"none", Json::List()}});
  CHECK(value.dump("test") ==
        "{\"z\":[1,-2,18446744073709551615,-9223372036854775808,true,false,null],"
        "\"a\\\"\\\\\\n\\u0001\\u007f\":\"\u00e9\U0001F600/\",\"empty\":{},\"none\":[]}");
  CHECK(Json::object({{"a", Json::List{1, 2}}, {"b", Json::object({})}}).dump("test", 2) ==
        "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}");
  const Json back = parse(value.dump("test", 1));
  CHECK(*back.find("a\"\\\n\x01\x7f")->text() == "\u00e9\U0001F600/");
  CHECK(back.find("z")->list()->at(2).unsigned_integer() == UINT64_MAX);

  std::mt19937_64 random(1);
  std::vector<double> numbers = {0.0,
                                 -0.0,
                                 1.0,
                                 1e-5,
                                 0.1,
                                 1e15,
                                 1e22,
                                 500000,
                                 1e-300,
                                 5e-324,
                                 -1.5,
                                 std::numeric_limits<double>::max(),
                                 std::numeric_limits<double>::min()};
  while (numbers.size() < 1000) {
    const double d = std::bit_cast<double>(random());
    if (std::isfinite(d)) numbers.push_back(d);
  }
  for (const double d : numbers) {
    const std::string text = Json(d).dump("test");
    INFO(text);
    const Json again = parse(text);
    CHECK(!again.integer());
    CHECK(std::bit_cast<std::uint64_t>(again.number().value()) == std::bit_cast<std::uint64_t>(d));
  }
  CHECK(Json(500000.0).dump("test") == "500000.0");
  CHECK(Json(std::nan("")).dump("test") == "null");
  CHECK_THROWS_WITH(Json("a\xff").dump("test"),
                    "[test] the text 'a\\xFF' is not valid UTF-8; JSON holds nothing else");
  CHECK_THROWS_AS(Json::object({{"\xc3", 1}}).dump("test"), IoError);
}
