#include <cotangent/core/base/error.h>
#include <cotangent/nn/text/bpe.h>
#include <cotangent/nn/text/pattern_internal.h>
#include <cotangent/nn/text/tokenizer.h>
#include <cotangent/nn/text/unicode_internal.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::TempFolder;
using text::CharTokenizer;
using text::detail::Category;
using text::detail::Pattern;
using Ids = std::vector<std::int64_t>;
using Catch::Matchers::Contains;

TEST_CASE("unicode: categories, spaces and UTF-8", "[text]") {
  using text::detail::category_of;
  CHECK(category_of('a') == Category::Ll);
  CHECK(category_of('Z') == Category::Lu);
  CHECK(category_of('5') == Category::Nd);
  CHECK(category_of('_') == Category::Pc);
  CHECK(category_of(' ') == Category::Zs);
  CHECK(category_of(0xBD) == Category::No);      // one half
  CHECK(category_of(0x2167) == Category::Nl);    // Roman eight
  CHECK(category_of(0x6771) == Category::Lo);    // a Han character, inside a long run
  CHECK(category_of(0x1F600) == Category::So);   // an emoji
  CHECK(category_of(0x10FFFF) == Category::Cn);  // the last code point
  CHECK(category_of(text::detail::kBadByte + 0xFF) == Category::Cn);
  int spaces = 0;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) spaces += text::detail::is_space(c);
  CHECK(spaces == 25);

  for (const auto& [c, length] : {std::pair(U'\x7F', 1u),
                                  {U'\x80', 2u},
                                  {U'\x7FF', 2u},
                                  {U'\x800', 3u},
                                  {U'\xFFFF', 3u},
                                  {U'\x10000', 4u},
                                  {U'\x10FFFF', 4u}}) {
    std::string bytes;
    text::detail::append_utf8(bytes, c);
    CHECK(bytes.size() == length);
    CHECK(text::detail::decode_utf8(bytes) == std::vector<char32_t>{c});
  }
  // Overlong, a surrogate, beyond Unicode, cut off, a lone continuation: each byte is bad by itself.
  for (const char* bad :
       {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE6\x9D", "\x80"}) {
    const auto codes = text::detail::decode_utf8(bad);
    CHECK(codes.size() == std::string(bad).size());
    std::string back;
    for (const char32_t c : codes) {
      CHECK(c >= text::detail::kBadByte);
      text::detail::append_utf8(back, c);
    }
    CHECK(back == bad);
  }
}

namespace {

// The matches, with '|' between them.
std::string matches(const std::string& pattern, const std::string& text) {
  const Pattern p("test", pattern);
  const auto codes = text::detail::decode_utf8(text);
  std::vector<Pattern::Match> found;
  p.find_all(codes, found);
  std::string out;
  for (const auto& m : found) {
    if (!out.empty()) out += '|';
    for (std::size_t i = m.begin; i < m.end; ++i) text::detail::append_utf8(out, codes[i]);
  }
  return out;
}

}  // namespace

TEST_CASE("patterns: what they match", "[text]") {
  CHECK(matches("ab|a|b", "abba") == "ab|b|a");
  CHECK(matches("a|ab", "ab") == "a");  // the first alternative, not the longest
  CHECK(matches("a+", "aaba") == "aa|a");
  CHECK(matches("a+?", "aaba") == "a|a|a");
  CHECK(matches("a*b", "aabcb") == "aab|b");
  CHECK(matches("a*", "ba") == "a");  // empty matches do not count
  CHECK(matches("a{2}", "aaaaa") == "aa|aa");
  CHECK(matches("a{1,3}", "aaaaa") == "aaa|aa");
  CHECK(matches("a{2,}b", "abaab") == "aab");
  CHECK(matches("a+ab", "aaab") == "aaab");
  CHECK(matches("a++ab", "aaab") == "");  // possessive: nothing is given back
  CHECK(matches("(?>a*)ab", "aab") == "");
  CHECK(matches("(?:ab)+", "ababa") == "abab");
  CHECK(matches("(ab|c){2}", "abcab") == "abc");
  CHECK(matches("\\s+(?!\\S)", "a   b  ") == "  |  ");
  CHECK(matches("a(?=b)", "acab") == "a");
  CHECK(matches("(?i:'s)t", "'st 'St 'ST '\u017Ft") == "'st|'St|'\u017Ft");
  CHECK(matches("[a-cx]+", "abcdx") == "abc|x");
  CHECK(matches("[^a-c\\s]+", "ab de f") == "de|f");
  CHECK(matches("[]a]+", "]a-") == "]a");
  CHECK(matches("[a-]+", "a-b") == "a-");
  CHECK(matches("[\\r\\n]+", "a\r\nb") == "\r\n");
  CHECK(matches("\\p{Lu}\\p{Ll}+", "Aa \u00C4\u00F6 aA") == "Aa|\u00C4\u00F6");
  CHECK(matches("\\PL", "a1") == "1");
  CHECK(matches("[\\P{L}]", "a1") == "1");
  CHECK(matches("\\p{^N}+", "a1") == "a");
  CHECK(matches("[\\S]+", "a b") == "a|b");
  CHECK(matches("[\\u4E00-\\u9FFF]+", "a\u6771\u4EACb") == "\u6771\u4EAC");
  CHECK(matches("\\x{1F600}", "\U0001F600") == "\U0001F600");
  CHECK(matches(".", "a\nb") == "a|b");
  CHECK(matches("^a", "aa") == "a");
  CHECK(matches("a$", "aa") == "a");
  CHECK(matches("^[ab]", "ab\nba\n") == "a|b");  // ^ and $ are about lines
  CHECK(matches("[ab]$", "ab\nba\n") == "b|a");
  CHECK(matches("\\s(?:^)", "a\n\nb\n") == "\n|\n");  // the end of the text begins no line
  CHECK(matches("\\s+$", "a  \n b ") == "  | ");
  CHECK(matches("\\.\\|", "..|") == ".|");
}

TEST_CASE("patterns: what they refuse", "[text]") {
  for (const char* bad :
       {"(",       ")",       "a)",       "[",           "[a",     "[b-a]", "*",          "a|+",
        "(?<a>b)", "(?<=a)b", "(?P<n>a)", "\\",          "\\q",    "\\1",   "\\p{Latin}", "\\p{L",
        "a{3,2}",  "a{1001}", "a{2,b}",   "[[:alpha:]]", "[a&&b]", "\\u12", "(?=a)+",     "\\x{110000}"})
    CHECK_THROWS_AS(Pattern("test", bad), ValueError);
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += '(';
  CHECK_THROWS_AS(Pattern("test", deep), ValueError);
  CHECK_THROWS_AS(Pattern("test", "(?:(?:a{1000}){1000}){1000}"), ValueError);
  // Exponential time.
  CHECK_THROWS_WITH(matches("(?:a+)+b", std::string(60, 'a')), Contains("too many ways"));
}

TEST_CASE("patterns: an iteration that takes nothing ends its loop", "[text]") {
  // Oniguruma's order: the text behind the loop comes next, not another alternative of the
  // iteration.
  CHECK(matches("(a?)*!", "aaa!") == "aaa!");
  CHECK(matches("(?:a*)*b", "aaab") == "aaab");
  CHECK(matches("(?:a*)*b", "aaa") == "");
  CHECK(matches("(?:|b)*", "bb") == "");
  CHECK(matches("(?:|b)+", "bb") == "");
  CHECK(matches("(?:a?)*?b", "aab") == "aab");
  CHECK(matches("(?:a|)+b", "aab") == "aab");
  CHECK(matches("(?:a?){2,}b", "aab") == "aab");
  CHECK(matches("(?:a?)*+b", "aab") == "aab");
  CHECK(matches("(?:a??b?)*c", "abac") == "abac");
  CHECK(matches("(?:a*?)*b", "aab") == "aab");
  CHECK(matches("(?:|a|b)*c", "abc") == "abc");
  CHECK(matches("(?:(a?)*)*b", "aab") == "aab");
  CHECK(matches("(?:(?:|a)+)+b", "aab") == "aab");
  CHECK(matches("(?:(?=a))*a", "aa") == "a|a");
  CHECK(matches("(?:(?:b?)*a(?>(?:b?)*))*c", "bbababac") == "bbababac");
  CHECK(matches("(?:(?!(?:b?)*c)[ab]|)*", "aabc") == "aa");
}

TEST_CASE("patterns: the work of compiling has an end", "[text]") {
  for (const char* bomb :
       {"(){1000}{1000}{1000}{1000}a", "a{0}{1000}{1000}{1000}", "(?:(?:){1000}){1000}",
        "(?:(?:(?:|){1000}){1000}){1000}", "(?:(?>){1000}){1000}", "(?:(?=)){0}{1000}{1000}{1000}"})
    CHECK_THROWS_WITH(Pattern("test", bomb), Contains("written out"));
  CHECK_THROWS_WITH(Pattern("test", std::string(100000, 'a')), Contains("long"));
  CHECK_THROWS_WITH(Pattern::literal("test", std::string(100000, 'a')), Contains("long"));
  CHECK_THROWS_WITH(Pattern("test", "[" + std::string(100000, 'a') + "]"), Contains("long"));
  CHECK(matches("(){1000}a", "aa") == "a|a");
  CHECK(matches("a{0}b", "ab") == "b");
}

TEST_CASE("patterns: memory and time grow with the text", "[text]") {
  std::string text(100000, 'a');
  CHECK(matches("(?:a|b)+", text) == text);
  CHECK(matches("(?:a?)*", text) == text);
  text.assign(20000, 'x');
  CHECK_THROWS_WITH(matches("(?:a??b??c??d??e??f??g??h??i??x)*", text), Contains("remembers too many"));
  CHECK_THROWS_WITH(matches("(?:x|y)(?:a??b??c??d??e??f??g??h??i??x)*", text),
                    Contains("[test]") && Contains("rewrite"));
  // The characters that a repetition reads count as well, wherever it begins.
  text.assign(20000, 'a');
  CHECK_THROWS_WITH(matches("a++b", text), Contains("too many ways"));
  // Budget that one part of a text leaves is there for the next; none is given anew.
  const Pattern p("test", "(?:a+)+b");
  const auto word = text::detail::decode_utf8("aaaaaaaa");
  std::vector<Pattern::Match> found;
  Pattern::Budget budget;
  std::size_t words = 0;
  CHECK_THROWS_AS(
      [&] {
        for (; words < 1000; ++words) p.find_all(word, found, budget);
      }(),
      ValueError);
  CHECK(words > 1);
  CHECK(words < 100);
  // Many ranges in one set are as quick as one.
  std::string ranges = "[";
  for (char32_t c = 0x10000; c < 0x10000 + 8000; c += 2) text::detail::append_utf8(ranges, c);
  text.clear();
  for (int i = 0; i < 20000; ++i) text += "\U00010001\U00010002";
  CHECK(matches(ranges + "]{2}", text) == "");
}

TEST_CASE("characters: encode, decode, save, load", "[text]") {
  const CharTokenizer t = CharTokenizer::from_text("hello \u6771\u00E9 world\n");
  CHECK(t.vocab_size() == 11);
  const Ids ids = t.encode("low \u6771\u00E9");
  CHECK(ids == Ids{5, 6, 8, 1, 10, 9});
  CHECK(t.decode(ids) == "low \u6771\u00E9");
  CHECK(t.encode("").empty());
  CHECK(t.token_bytes(0) == "\n");
  CHECK_THROWS_AS(t.token_bytes(11), IndexError);
  CHECK_THROWS_AS(t.token_bytes(-1), IndexError);

  const TempFolder folder;
  t.save(folder / "tokenizer.json");
  const auto loaded = text::load_tokenizer(folder.path());
  CHECK(loaded->vocab_size() == 11);
  CHECK(loaded->encode("low \u6771\u00E9") == ids);
  CHECK(CharTokenizer::load(folder / "tokenizer.json").decode(ids) == "low \u6771\u00E9");
}

TEST_CASE("characters: what has no token is named, with its place", "[text]") {
  const CharTokenizer t = CharTokenizer::from_text("abc\u00E9");
  CHECK_THROWS_WITH(t.encode("\u00E9abz"), Contains("'z' (U+007A) at byte 4") && Contains("4 characters"));
  CHECK_THROWS_WITH(t.encode("a\u6771"), Contains("'\u6771' (U+6771) at byte 1"));
  CHECK_THROWS_WITH(t.encode(std::string("a\0", 2)), Contains("U+0000 at byte 1"));
  CHECK_THROWS_WITH(t.encode("ab\xff"), Contains("0xFF at byte 2"));
  CHECK_THROWS_AS(t.encode("z"), ValueError);
  CHECK_THROWS_WITH(CharTokenizer::from_text("ab\xe9"),
                    Contains("byte 2") && Contains("0xE9") && Contains("UTF-8"));
  CHECK(CharTokenizer::from_text("").vocab_size() == 0);
}

TEST_CASE("characters: a tokenizer that was moved from says so", "[text]") {
  CharTokenizer t = CharTokenizer::from_text("ab");
  const CharTokenizer other = std::move(t);
  CHECK(other.encode("ab") == Ids{0, 1});
  const TempFolder folder;  // NOLINTBEGIN(bugprone-use-after-move)
  CHECK_THROWS_WITH(t.encode("a"), Contains("[CharTokenizer]") && Contains("moved from"));
  CHECK_THROWS_WITH(t.vocab_size(), Contains("moved from"));
  CHECK_THROWS_WITH(t.token_bytes(0), Contains("moved from"));
  CHECK_THROWS_WITH(t.decode(Ids{0}), Contains("moved from"));
  CHECK_THROWS_WITH(t.save(folder / "t.json"), Contains("moved from"));
  t = CharTokenizer::from_text("c");  // NOLINTEND(bugprone-use-after-move)
  CHECK(t.encode("c") == Ids{0});
}

TEST_CASE("characters: files of older versions, and files that are refused", "[text]") {
  const auto file = [](const std::string& vocab) {
    return "{\"model\": {\"type\": \"Characters\", \"vocab\": " + vocab + "}}";
  };
  CHECK(CharTokenizer::from_json(file("[\"a\", \"b\"]")).vocab_size() == 2);
  for (const char* vocab : {"3", "[1]", "[\"\"]", "[\"ab\"]", "[\"b\", \"a\"]", "[\"a\", \"a\"]", "[[[[]]]]"})
    CHECK_THROWS_AS(CharTokenizer::from_json(file(vocab)), IoError);
  const auto words = [](const std::string& vocab) {
    return R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[\\s\\S]"}}, "model": {"type": "WordLevel", "vocab": )" +
           vocab + "}}";
  };
  CHECK(CharTokenizer::from_json(words(R"({"b": 1, "a": 0})")).encode("ab") == Ids{0, 1});
  for (const char* vocab :
       {R"({"b": 0, "a": 1})", R"({"a": 1})", R"({"a": "0"})", R"({"ab": 0})", R"({"": 0})", "3"})
    CHECK_THROWS_AS(CharTokenizer::from_json(words(vocab)), IoError);
  for (const char* json :
       {"", "[]", "{}", "{\"model\": 3}", "{\"model\": {\"type\": \"BPE\", \"vocab\": []}}", "{\"model\""})
    CHECK_THROWS_AS(CharTokenizer::from_json(json), IoError);
}
