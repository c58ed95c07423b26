#include <cotangent/nn/data/csv.h>

#include <cmath>
#include <limits>

#include <cotangent/core/base/error.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::TempFolder;
using data::parse_csv;

namespace {

std::string message_of(const std::string& text, const data::CsvOptions& options = {}, bool numbers = false) {
  try {
    const data::CsvTable table = parse_csv(text, options, "t.csv");
    if (numbers) table.numbers();
  } catch (const IoError& e) { return e.what(); }
  return "no IoError";
}
bool mentions(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("csv: cells, quotes, ends of lines", "[data][csv]") {
  const auto table =
      parse_csv("\xef\xbb\xbfid, name ,\"a \"\"b\"\"\"\r\n1,\"x,\r\ny\",\n\n2,it's \"so\",\"\"\r\n3,,0");
  CHECK(table.columns() == std::vector<std::string>{"id", "name", "a \"b\""});
  REQUIRE(table.rows() == 3);
  CHECK(table.text(0, 1) == "x,\r\ny");
  CHECK(table.text(0, 2).empty());
  CHECK(table.text(1, 1) == "it's \"so\"");
  CHECK(table.text(1, 2).empty());
  CHECK(table.text(2, 0) == "3");
  CHECK(table.text(2, 2) == "0");
  CHECK_THROWS_AS(table.text(3, 0), IndexError);
  CHECK_THROWS_AS(table.text(0, 3), IndexError);
  CHECK_THROWS_AS(table.text(0, -1), IndexError);

  const auto other = parse_csv("1;'a;b'\n2;c\n", {.delimiter = ';', .quote = '\'', .header = false});
  CHECK(other.columns() == std::vector<std::string>{"0", "1"});
  CHECK(other.text(0, 1) == "a;b");
  CHECK(parse_csv("a,b\n").rows() == 0);
  CHECK(parse_csv("a,b").numbers().shape() == Shape{0, 2});
  CHECK(parse_csv("", {.header = false}).rows() == 0);
}

TEST_CASE("csv: numbers and classes", "[data][csv]") {
  const auto table = parse_csv("x,y,kind\n1.5, -2e3 ,dog\n,+0.25,cat\n.5,inf,dog\n");
  const Tensor x = table.numbers({"y", "x"}, f64);
  CHECK(x.shape() == Shape{3, 2});
  const std::vector<double> values = x.to_vector<double>();
  CHECK(values[0] == -2000);
  CHECK(values[1] == 1.5);
  CHECK(values[2] == 0.25);
  CHECK(std::isnan(values[3]));
  CHECK(std::isinf(values[4]));
  CHECK(table.numbers({"x"}).dtype() == f32);
  const auto [labels, names] = table.classes("kind");
  CHECK(labels.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0, 1});
  CHECK(names == std::vector<std::string>{"cat", "dog"});

  const auto whole = parse_csv("a,b\n-9223372036854775808,255\n9223372036854775807,0\n");
  CHECK(whole.numbers({"a"}, i64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{INT64_MIN, INT64_MAX});
  CHECK(whole.numbers({"b"}, u8).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{255, 0});
  CHECK_THROWS_AS(whole.numbers({"a"}, i32), IoError);
  CHECK_THROWS_AS(parse_csv("a\n256\n").numbers({}, u8), IoError);
  CHECK_THROWS_AS(parse_csv("a\n-1\n").numbers({}, u8), IoError);
  CHECK_THROWS_AS(parse_csv("a\n1.5\n").numbers({}, i64), IoError);
  CHECK_THROWS_AS(parse_csv("a\n\"\"\n").numbers({}, i64), IoError);
  CHECK_THROWS_AS(whole.numbers({"a"}, boolean), DTypeError);
  CHECK_THROWS_AS(whole.numbers({"c"}), ValueError);
  CHECK_THROWS_AS(whole.classes("c"), ValueError);
}

TEST_CASE("csv: what is wrong is named with line and column", "[data][csv]") {
  CHECK(mentions(message_of("a,b\n1,2\n3\n"),
                 "'t.csv': line 3, column 2: a row of 1 cells; the first line has 2"));
  CHECK(mentions(message_of("a,b\n1,2,3\n"), "line 2, column 4: a row of 3 cells"));
  CHECK(mentions(message_of("a,b\n\"1\n\n,2\n"), "line 2, column 1: a quote that does not end"));
  CHECK(mentions(message_of("a,b\n1,\"2\n\"3\n"), "line 3, column 2: text behind a quote"));
  CHECK(mentions(message_of("a,a\n"), "line 1, column 2: the name 'a' a second time"));
  CHECK(mentions(message_of(std::string("a,b\n1,\0\n", 8)), "line 2, column 2: a NUL byte"));
  CHECK(mentions(message_of(""), "is empty"));
  CHECK(mentions(message_of("\n\n"), "is empty"));
  // Lines are those of the file, whatever stands in quotes.
  CHECK(mentions(message_of("a,b\n\"\n\n\",1\n2,x\n", {}, true), "line 2, column 1 ('a'): "));
  CHECK(mentions(message_of("a,b\n1,\"\n\"\n2,\x1b[2J\n", {.header = true}, true),
                 "line 2, column 2 ('b'): '\\x0A' is no number"));
  CHECK(mentions(message_of("a,b\n1,2\n\n2,0x1\n", {}, true), "line 4, column 2 ('b'): '0x1' is no number"));
  for (const char* no : {"1 2", "1,", "--1", "+-1", "1e", "e5", "1.5.2", "nanx", "1e999"})
    CHECK_THROWS_AS(parse_csv("a;\n" + std::string(no) + ";\n", {.delimiter = ';'}).numbers({"a"}), IoError);
  CHECK_THROWS_AS(parse_csv("a", {.delimiter = '"'}), ValueError);
  CHECK_THROWS_AS(parse_csv("a", {.delimiter = '\n'}), ValueError);
  CHECK_THROWS_AS(parse_csv("a", {.quote = '\r'}), ValueError);
  CHECK_THROWS_AS(data::read_csv("/nowhere/at/all.csv"), IoError);
  const TempFolder folder;
  folder.write("t.csv", "n\n7\n");
  CHECK(data::read_csv(folder / "t.csv").numbers().item() == 7);
}

TEST_CASE("a CSV number below the smallest is 0, one above the largest an error", "[data]") {
  const auto read = [](const std::string& text, DType dtype) {
    return parse_csv("a\n" + text + "\n").numbers({}, dtype).to_vector<double>()[0];
  };
  const std::string zeros(400, '0');
  for (const std::string& text :
       {std::string("1e-400"), std::string("+1e-400"), "0." + zeros + "1", std::string("12.5E-99999"),
        std::string("1e-99999999999999999999"), "1" + zeros + "e-999", "0." + zeros + "1e+9"}) {
    INFO(text);
    CHECK(read(text, f64) == 0);
    CHECK(read(text, f32) == 0);
  }
  CHECK(std::signbit(read("-1e-400", f64)));
  CHECK(read("1e-50", f32) == 0);
  CHECK(read("4.9e-324", f64) > 0);
  for (const std::string& text :
       {std::string("1e400"), std::string("-1e400"), "1" + zeros, std::string("0.1e999"),
        std::string("1e99999999999999999999"), "0." + zeros + "1e+999", std::string("1e-400x")})
    CHECK_THROWS_AS(read(text, f64), IoError);
  CHECK_THROWS_AS(read("99999999999999999999", i64), IoError);
  // The largest that rounds to a number, and the least that rounds to infinity.
  const std::tuple<DType, const char*, const char*> ends[] = {{f16, "65519.99", "65520"},
                                                              {bf16, "3.396177e38", "3.3961776e38"},
                                                              {f32, "3.40282356e38", "3.4028236e38"}};
  for (const auto& [dtype, fits, does_not] : ends) {
    CAPTURE(dtype);
    CHECK(std::isfinite(read(fits, dtype)));
    CHECK(std::isfinite(read("-" + std::string(fits), dtype)));
    CHECK_THROWS_AS(read(does_not, dtype), IoError);
    CHECK_THROWS_AS(read("-" + std::string(does_not), dtype), IoError);
    CHECK(std::isinf(read("-inf", dtype)));
  }
  CHECK_THROWS_AS(read("2147483648", i32), IoError);
  CHECK(read("-2147483648", i32) == -2147483648.);
  CHECK_THROWS_AS(read("256", u8), IoError);
}
