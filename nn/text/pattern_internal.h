#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cotangent/core/base/export.h>

// The part of regular expressions that tokenizers are written in, over characters (not bytes), with the
// meaning that Oniguruma gives it for Unicode text: the first alternative that matches wins.

namespace ct::text::detail {

/// A set of characters.
struct CharSet {
  struct Range {
    char32_t first, last;
  };
  std::vector<Range> ranges;
  std::uint32_t categories = 0;  // a bit for each Category
  bool space = false, not_space = false;
  bool negated = false;
  std::array<std::uint64_t, 2> ascii{};  // the answers for ASCII, filled by finish()

  /// Once all is in it, and before contains().
  void finish();
  bool contains(char32_t c) const {
    return c < 128 ? (ascii[c >> 6] >> (c & 63) & 1) != 0 : slow_contains(c);
  }

 private:
  bool slow_contains(char32_t c) const;
};

/// A compiled pattern: alternatives, (?:...) and (?i:...), sets, \s \d \w \r \n \t \p{...} and their
/// complements, ? * + {m,n} greedy, lazy and possessive, (?=...) and (?!...), ^ and $ for the ends of
/// lines (Oniguruma's meaning, which `tokenizers` has). Groups do not capture. Safe for use from
/// several threads.
class CT_API Pattern {
 public:
  /// Throws ValueError, naming `op` and the place, for anything else, and for what is too long once counted
  /// repetitions are written out.
  Pattern(const char* op, std::string_view text);
  /// A pattern that matches this text and nothing else.
  static Pattern literal(const char* op, std::string_view text);

  struct Match {
    std::size_t begin, end;
  };
  /// Limit of the steps of a search, so that time and memory are linear in the text: nested repetitions would
  /// try exponentially many ways. One budget serves all parts of a text.
  struct Budget {
    /// Adds the budget of `characters` more characters.
    CT_API void allow(std::size_t characters);

    std::size_t steps = 100000, places = 1000;
    struct Entry {  // go on at `pc` with any place from `high` down to `low`, the highest first
      std::size_t pc, low, high;
    };
    std::vector<Entry> stack;
    std::vector<std::size_t> marks;  // where the iterations of loops began
  };
  /// All matches from left to right, none empty. Throws ValueError for a pattern that exceeds the budget.
  void find_all(std::span<const char32_t> text, std::vector<Match>& matches, Budget& budget) const;
  /// With a budget for this text.
  void find_all(std::span<const char32_t> text, std::vector<Match>& matches) const;

 private:
  friend class PatternCompiler;
  enum class Kind : std::uint8_t { set, run, split, jump, mark, again, look, atomic, begin, end, match };
  struct Step {
    Kind kind;
    bool flag = false;    // look: negative. run: possessive
    std::uint32_t a = 0;  // set, run: the set. split: tried first. mark: which. others: where to go on
    std::uint32_t b = 0;  // split: tried second. run: at least so many. again: the mark that `at` has passed
  };
  Pattern() = default;
  std::size_t run(std::span<const char32_t> text, std::size_t pc, std::size_t at, Budget& budget) const;

  std::string source_;
  const char* op_ = "";
  std::vector<CharSet> sets_;
  std::vector<Step> steps_;
  std::uint32_t marks_ = 0;
};

}  // namespace ct::text::detail
