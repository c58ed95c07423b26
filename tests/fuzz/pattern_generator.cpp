#include "tests/fuzz/pattern_generator.h"

#include <iterator>

namespace ct::fuzz {
namespace {

constexpr const char* kCharacters[] = {"a", "b", "c", " ", "A", "1", "\n", "\xC3\xA9", "\xE2\x96\x81"};
constexpr int kDepth = 12;
constexpr std::size_t kAtoms = 64;  // of one pattern

class PatternMaker {
 public:
  PatternMaker(Choices& choices, int deepest) : c_(choices), deepest_(deepest) {}

  std::string alternatives(int depth) {
    std::string out = sequence(depth);
    for (std::size_t n = c_.below(8); n > 5 && atoms_ > 0; --n) out += '|' + sequence(depth);
    return out;
  }

 private:
  std::string sequence(int depth) {
    std::string out;
    const std::size_t kind = c_.below(8);
    if (kind == 7) return out;
    for (std::size_t n = 0; n <= kind % 4 && (n == 0 || (c_.more() && atoms_ > 0)); ++n)
      out += atom(depth) + repetitions();
    return out;
  }
  std::string atom(int depth) {
    static constexpr const char* groups[] = {"(", "(?:", "(?i:", "(?>", "(?:(?=", "(?:(?!"};
    static constexpr const char* sets[] = {"\\s",    "\\S",       "\\p{L}",       "[ab]", "[^a-c]",
                                           "[^\\s]", "[\\p{N}c]", "[a-\xC3\xA9]", "."};
    const std::size_t kind = c_.below(16);
    if (atoms_ > 0) --atoms_;
    if (kind >= 6 && depth < deepest_ && atoms_ > 0) {
      if (kind == 15) return "(?:" + std::string(c_.below(2) ? "^" : "$") + ')';
      const std::string open = groups[c_.below(std::size(groups))];
      return open + alternatives(depth + 1) + (open.size() > 4 ? "))" : ")");
    }
    if (kind >= 3) return sets[c_.below(std::size(sets))];
    return kCharacters[c_.below(std::size(kCharacters))];
  }
  std::string repetitions() {
    static constexpr const char* few[] = {"?", "*", "+", "{0}", "{1}", "{2}", "{3}", "{0,2}", "{2,3}"};
    static constexpr const char* many[] = {"{1000}", "{10,}", "{0,1000}"};  // thousands of steps, and slow
    static constexpr const char* modes[] = {"", "?", "+"};
    std::string out;
    for (std::size_t n = c_.below(16); n > 11; --n)
      (out += c_.one_in(64) ? many[c_.below(std::size(many))] : few[c_.below(std::size(few))]) +=
          modes[c_.below(std::size(modes))];
    return out;
  }

  Choices& c_;
  int deepest_;
  std::size_t atoms_ = kAtoms;  // that there may still be
};

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// Several things in a row, separated by commas.
template <class Make>
std::string list(std::size_t count, Make&& make) {
  std::string out;
  for (std::size_t n = 0; n < count; ++n) (out += n ? "," : "") += make();
  return '[' + out + ']';
}

}  // namespace

std::string make_pattern(Choices& choices) { return PatternMaker(choices, kDepth).alternatives(0); }

std::string make_text(Choices& choices, std::size_t longest) {
  std::string out;
  while (choices.more() && out.size() < longest) {
    const std::string character = kCharacters[choices.below(std::size(kCharacters))];
    for (std::size_t n = std::size_t{1} << choices.below(11); n > 0 && out.size() < longest; --n)
      out += character;
  }
  return out;
}

std::string make_tokenizer(Choices& choices) {
  const auto text = [&](std::size_t most) {
    std::string out;
    const std::string one = kCharacters[choices.below(std::size(kCharacters))];
    for (std::size_t n = choices.below(most + 1) * choices.below(9); n + 1 > 0 && out.size() < 1100; --n) {
      out += one;
      if (n == 0) break;
    }
    return out;
  };
  const std::string normalizers = list(choices.below(12), [&]() -> std::string {
    if (choices.one_in(4)) return R"({"type": "Prepend", "prepend": )" + quoted(text(40)) + '}';
    return R"({"type": "Replace", "pattern": {"String": )" + quoted(text(1)) + R"(}, "content": )" +
           quoted(text(120)) + '}';
  });
  // Patterns alone have a target of their own: most are shallow here.
  const int deepest = choices.one_in(16) ? kDepth : 1;
  const std::string cuts = list(choices.below(6), [&]() -> std::string {
    switch (choices.below(4)) {
      case 0:
        return R"({"type": "Metaspace", "prepend_scheme": ")" +
               std::string(choices.below(2) ? "always" : "first") + R"(", "split": )" +
               (choices.below(2) ? "true}" : "false}");
      case 1: return R"({"type": "Digits", "individual_digits": true})";
      default:
        return R"({"type": "Split", "behavior": ")" +
               std::string(choices.one_in(4) ? "Removed" : "Isolated") + R"(", "pattern": {"Regex": )" +
               quoted('a' + PatternMaker(choices, deepest).alternatives(0)) + "}}";
    }
  });
  std::size_t id = 10;
  const std::string added = list(choices.below(4), [&] {
    return R"({"id": )" + std::to_string(id++) + R"(, "content": )" + quoted(text(3)) +
           R"(, "normalized": )" + (choices.below(2) ? "true" : "false") + R"(, "lstrip": )" +
           (choices.below(2) ? "true}" : "false}");
  });
  return R"({"added_tokens": )" + added + R"(, "normalizer": {"type": "Sequence", "normalizers": )" +
         normalizers + R"(}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": )" + cuts +
         R"(}, "model": {"type": "BPE", "unk_token": "a", "fuse_unk": false, "vocab": {"a": 0, "b": 1, " ": 2,
"\u2581": 3, "ab": 4, "aa": 5}, "merges": ["a b", "a a"]}})";
}

}  // namespace ct::fuzz
