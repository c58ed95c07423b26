#include <algorithm>

#include <cotangent/core/base/error.h>
#include <cotangent/nn/text/pattern_internal.h>
#include <cotangent/nn/text/unicode_internal.h>

// Patterns: from text to a tree, and from the tree to the steps that pattern.cpp runs.

namespace ct::text::detail {
namespace {

constexpr std::size_t kMaxBytes = 20000;
constexpr std::size_t kMaxSteps = 20000;
constexpr std::size_t kMaxNodes = 5 * kMaxSteps;  // that are visited to write the steps
constexpr int kMaxGroupDepth = 40;

std::uint32_t bits(std::initializer_list<Category> list) {
  std::uint32_t mask = 0;
  for (const Category c : list) mask |= 1u << static_cast<unsigned>(c);
  return mask;
}

constexpr const char* kNames[] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                  "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                  "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};
constexpr std::uint32_t kAllCategories = (1u << std::size(kNames)) - 1;

}  // namespace

class PatternCompiler {
 public:
  PatternCompiler(const char* op, std::string_view text, Pattern& pattern) : op_(op), out_(pattern) {
    CT_CHECK(text.size() <= kMaxBytes, ValueError, op, "a pattern is ", text.size(), " bytes long; at most ",
             kMaxBytes, " are known: cut the text in several steps");
    text_ = decode_utf8(text);
    out_.source_ = text;
    out_.op_ = op;
  }

  void compile() {
    const Node root = alternatives();
    check(at_ == text_.size(), "there is a ')' without a '('");
    emit(root);
    add({Pattern::Kind::match});
  }
  void compile_literal() {
    for (const char32_t c : text_) add({Pattern::Kind::set, false, new_set(single(c))});
    add({Pattern::Kind::match});
  }

 private:
  enum class What { nothing, set, sequence, choice, repeat, look, atomic, begin, end };
  struct Node {
    What what = What::nothing;
    std::uint32_t set = 0;
    std::vector<Node> parts;
    std::uint32_t min = 0, max = 0;  // of a repetition; max UINT32_MAX: no end
    enum class Mode { greedy, lazy, possessive } mode = Mode::greedy;
    bool negative = false;
  };

  template <class... Args>
  void check(bool ok, const Args&... args) const {
    CT_CHECK(ok, ValueError, op_, "the pattern '", out_.source_, "' can't be used: ", args..., " (character ",
             at_, "); the subset of regular expressions that tokenizers are written in is wanted");
  }
  bool more() const { return at_ < text_.size(); }
  char32_t peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }
  bool take(const char* token) {
    std::size_t n = 0;
    for (; token[n] != 0; ++n)
      if (at_ + n >= text_.size() || text_[at_ + n] != static_cast<unsigned char>(token[n])) return false;
    at_ += n;
    return true;
  }
  char32_t next() {
    check(more(), "it ends too early");
    return text_[at_++];
  }

  // --- text to tree ---
  Node alternatives() {
    check(++depth_ <= kMaxGroupDepth, "groups are nested more than ", kMaxGroupDepth, " deep");
    Node choice{What::choice, 0, {}};
    do choice.parts.push_back(sequence());
    while (take("|"));
    --depth_;
    return choice.parts.size() == 1 ? std::move(choice.parts[0]) : choice;
  }
  Node sequence() {
    Node all{What::sequence, 0, {}};
    while (more() && peek() != '|' && peek() != ')') all.parts.push_back(repeated(atom()));
    return all;
  }
  Node repeated(Node body) {
    for (int count = 0; more(); ++count) {
      std::uint32_t min = 0, max = UINT32_MAX;
      if (take("?")) {
        max = 1;
      } else if (take("+")) {
        min = 1;
      } else if (peek() == '{' && peek(1) >= '0' && peek(1) <= '9') {
        ++at_;
        min = max = number();
        if (take(",")) max = peek() == '}' ? UINT32_MAX : number();
        check(take("}") && min <= max, "a repetition is {n}, {n,} or {n,m} with n <= m");
      } else if (!take("*")) {
        break;
      }
      check(body.what != What::look && body.what != What::begin && body.what != What::end,
            "what takes no characters can't be repeated");
      Node repeat{What::repeat, 0, {}, min, max};
      repeat.parts.push_back(std::move(body));
      if (take("?")) {
        repeat.mode = Node::Mode::lazy;
      } else if (take("+")) {
        repeat.mode = Node::Mode::possessive;
      }
      body = std::move(repeat);
      check(count < 4, "too many repetitions of repetitions");
    }
    return body;
  }
  std::uint32_t number() {
    std::uint32_t value = 0;
    check(peek() >= '0' && peek() <= '9', "a number is missing");
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + static_cast<std::uint32_t>(next() - '0');
      check(value <= 1000, "a repetition of more than 1000 is too long");
    }
    return value;
  }
  Node of_set(CharSet set) { return {What::set, new_set(std::move(set)), {}}; }
  Node atom() {
    const char32_t c = next();
    switch (c) {
      case '(': return group();
      case '[': return of_set(bracket());
      case '\\': return of_set(escape());
      case '.': {
        CharSet set = single('\n');
        set.negated = true;
        return of_set(std::move(set));
      }
      case '^': return {What::begin, 0, {}};
      case '$': return {What::end, 0, {}};
      case '?':
      case '*':
      case '+': --at_; check(false, "there is nothing to repeat");
    }
    return of_set(single(c));
  }
  Node group() {
    Node node;
    const bool fold_before = fold_;
    if (take("?:")) {
    } else if (take("?i:")) {
      fold_ = true;
    } else if (take("?>")) {
      node.what = What::atomic;
    } else if (take("?!")) {
      node.what = What::look, node.negative = true;
    } else if (take("?=")) {
      node.what = What::look;
    } else {
      check(peek() != '?', "groups are (...), (?:...), (?i:...), (?>...), (?=...) and (?!...)");
    }
    Node body = alternatives();
    check(take(")"), "a ')' is missing");
    fold_ = fold_before;
    if (node.what == What::nothing) return body;
    node.parts.push_back(std::move(body));
    return node;
  }

  CharSet single(char32_t c) const { return range(c, c); }
  CharSet range(char32_t first, char32_t last) const {
    CharSet set;
    set.ranges.push_back({first, last});
    if (!fold_) return set;
    // Case is folded for ASCII letters, with the two characters elsewhere that fold to one of them.
    const auto add_shifted = [&](char32_t low, char32_t high, char32_t to) {
      const char32_t a = std::max(first, low), b = std::min(last, high);
      if (a <= b) set.ranges.push_back({a - low + to, b - low + to});
    };
    add_shifted('a', 'z', 'A');
    add_shifted('A', 'Z', 'a');
    const auto has = [&](char32_t c) { return c >= first && c <= last; };
    if (has('s') || has('S')) set.ranges.push_back({0x17F, 0x17F});
    if (has('k') || has('K')) set.ranges.push_back({0x212A, 0x212A});
    if (has(0x17F)) set.ranges.push_back({'s', 's'}), set.ranges.push_back({'S', 'S'});
    if (has(0x212A)) set.ranges.push_back({'k', 'k'}), set.ranges.push_back({'K', 'K'});
    return set;
  }
  // The escape behind a backslash.
  CharSet escape() {
    const char32_t c = next();
    CharSet set;
    switch (c) {
      case 's': set.space = true; return set;
      case 'S': set.not_space = true; return set;
      case 'd': set.categories = bits({Category::Nd}); return set;
      case 'D': set.categories = kAllCategories & ~bits({Category::Nd}); return set;
      case 'w':
      case 'W':
        set.categories = bits({Category::Lu, Category::Ll, Category::Lt, Category::Lm, Category::Lo,
                               Category::Mn, Category::Mc, Category::Me, Category::Nd, Category::Pc});
        if (c == 'W') set.categories = kAllCategories & ~set.categories;
        return set;
      case 'p':
      case 'P': set.categories = property(c == 'P'); return set;
      case 'n': return single('\n');
      case 'r': return single('\r');
      case 't': return single('\t');
      case 'f': return single('\f');
      case 'v': return single('\v');
      case 'u':
      case 'x': return single(hexadecimal(c == 'u' ? 4 : 2));
    }
    check(!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')), "'\\", show(c),
          "' is not known");
    return single(c);
  }
  char32_t hexadecimal(int digits) {
    const bool braces = take("{");
    char32_t value = 0;
    for (int i = 0; braces ? peek() != '}' : i < digits; ++i) {
      const char32_t c = next();
      const int digit = c >= '0' && c <= '9'   ? static_cast<int>(c - '0')
                        : c >= 'a' && c <= 'f' ? static_cast<int>(c - 'a') + 10
                        : c >= 'A' && c <= 'F' ? static_cast<int>(c - 'A') + 10
                                               : -1;
      value = value * 16 + static_cast<char32_t>(digit);
      check(digit >= 0 && value <= kLastCodePoint, "a hexadecimal number of a character is wanted");
    }
    if (braces) ++at_;
    return value;
  }
  std::uint32_t property(bool complement) {
    std::string name;
    if (take("{")) {
      while (peek() != '}') append_utf8(name, next());
      ++at_;
    } else {
      append_utf8(name, next());
    }
    if (name.starts_with("^")) complement = !complement, name.erase(0, 1);
    std::uint32_t mask = 0;
    for (std::size_t i = 0; i < std::size(kNames); ++i)
      if (name == kNames[i] || (name.size() == 1 && name[0] == kNames[i][0])) mask |= 1u << i;
    check(mask != 0, "\\p{", name, "} is not known; general categories (L, Lu, N, ...) are");
    return complement ? kAllCategories & ~mask : mask;
  }
  CharSet bracket() {
    CharSet all;
    const bool negated = take("^");
    const auto merge = [&](const CharSet& part) {
      all.ranges.insert(all.ranges.end(), part.ranges.begin(), part.ranges.end());
      all.categories |= part.categories;
      all.space |= part.space, all.not_space |= part.not_space;
    };
    bool first = true;
    while (first || peek() != ']' || !more()) {
      const char32_t c = next();
      check(c != '[' && !(c == '&' && peek() == '&'), "a set within a set is not known");
      first = false;
      if (c == '\\' && !(peek() == 'u' || peek() == 'x')) {
        merge(escape());
        continue;
      }
      char32_t low = c;
      if (c == '\\') low = hexadecimal(next() == 'u' ? 4 : 2);
      char32_t high = low;
      if (peek() == '-' && peek(1) != ']' && peek(1) != 0) {
        ++at_;
        high = next();
        if (high == '\\') {
          const CharSet end = escape();
          check(end.ranges.size() == 1 && end.categories == 0, "a range ends with one character");
          high = end.ranges[0].first;
        }
        check(low <= high, "a range goes from a lower character to a higher one");
      }
      merge(range(low, high));
    }
    ++at_;
    all.negated = negated;
    return all;
  }

  // --- tree to steps ---
  std::uint32_t new_set(CharSet set) {
    set.finish();
    out_.sets_.push_back(std::move(set));
    return static_cast<std::uint32_t>(out_.sets_.size() - 1);
  }
  std::uint32_t here() const { return static_cast<std::uint32_t>(out_.steps_.size()); }
  std::uint32_t add(Pattern::Step step) {
    check_length(out_.steps_.size() < kMaxSteps);
    out_.steps_.push_back(step);
    return here() - 1;
  }
  void check_length(bool ok) const { check(ok, "with its counted repetitions written out it is too long"); }
  // Whether it can match without taking a character.
  static bool may_be_empty(const Node& node) {
    switch (node.what) {
      case What::set: return false;
      case What::sequence: return std::all_of(node.parts.begin(), node.parts.end(), may_be_empty);
      case What::choice: return std::any_of(node.parts.begin(), node.parts.end(), may_be_empty);
      case What::atomic: return may_be_empty(node.parts[0]);
      case What::repeat: return node.min == 0 || may_be_empty(node.parts[0]);
      default: return true;
    }
  }
  void emit(const Node& node) {
    using Kind = Pattern::Kind;
    check_length(++nodes_ <= kMaxNodes);  // a node that is repeated may have no step
    switch (node.what) {
      case What::nothing: break;
      case What::set: add({Kind::set, false, node.set}); break;
      case What::begin: add({Kind::begin}); break;
      case What::end: add({Kind::end}); break;
      case What::sequence:
        for (const Node& part : node.parts) emit(part);
        break;
      case What::choice: {
        std::vector<std::uint32_t> ends;
        for (std::size_t i = 0; i < node.parts.size(); ++i) {
          const bool last = i + 1 == node.parts.size();
          const std::uint32_t split = last ? 0 : add({Kind::split});
          if (!last) out_.steps_[split].a = here();
          emit(node.parts[i]);
          if (last) continue;
          ends.push_back(add({Kind::jump}));
          out_.steps_[split].b = here();
        }
        for (const std::uint32_t end : ends) out_.steps_[end].a = here();
        break;
      }
      case What::look:
      case What::atomic: {
        const std::uint32_t step = add({node.what == What::look ? Kind::look : Kind::atomic, node.negative});
        emit(node.parts[0]);
        add({Kind::match});
        out_.steps_[step].a = here();
        break;
      }
      case What::repeat: emit_repeat(node); break;
    }
  }
  void emit_repeat(const Node& node) {
    using Kind = Pattern::Kind;
    const Node& body = node.parts[0];
    const bool greedy = node.mode != Node::Mode::lazy;
    if (body.what == What::set && greedy && node.max == UINT32_MAX) {
      add({Kind::run, node.mode == Node::Mode::possessive, body.set, node.min});
      return;
    }
    std::uint32_t outer = 0;
    if (node.mode == Node::Mode::possessive) outer = add({Kind::atomic});
    for (std::uint32_t i = 0; i < node.min; ++i) emit(body);
    const auto split = [&] { return add({Kind::split}); };
    const auto set_split = [&](std::uint32_t at, std::uint32_t in, std::uint32_t out) {
      out_.steps_[at].a = greedy ? in : out;
      out_.steps_[at].b = greedy ? out : in;
    };
    if (node.max == UINT32_MAX) {
      const std::uint32_t loop = split();
      const std::uint32_t in = here();
      if (may_be_empty(body)) {  // then an iteration that took nothing must be the last
        const std::uint32_t mark = out_.marks_++;
        add({Kind::mark, false, mark});
        emit(body);
        add({Kind::again, false, loop, mark});
      } else {
        emit(body);
        add({Kind::jump, false, loop});
      }
      set_split(loop, in, here());
    } else {
      std::vector<std::pair<std::uint32_t, std::uint32_t>> splits;
      for (std::uint32_t i = node.min; i < node.max; ++i) {
        const std::uint32_t at = split();
        splits.emplace_back(at, here());
        emit(body);
      }
      for (const auto& [at, in] : splits) set_split(at, in, here());
    }
    if (node.mode == Node::Mode::possessive) {
      add({Kind::match});
      out_.steps_[outer].a = here();
    }
  }

  const char* op_;
  std::vector<char32_t> text_;
  Pattern& out_;
  std::size_t at_ = 0;
  std::size_t nodes_ = 0;
  int depth_ = 0;
  bool fold_ = false;
};

Pattern::Pattern(const char* op, std::string_view text) { PatternCompiler(op, text, *this).compile(); }

Pattern Pattern::literal(const char* op, std::string_view text) {
  Pattern pattern;
  PatternCompiler(op, text, pattern).compile_literal();
  return pattern;
}

}  // namespace ct::text::detail
