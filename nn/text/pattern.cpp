#include <algorithm>

#include <cotangent/core/base/error.h>
#include <cotangent/nn/text/pattern_internal.h>
#include <cotangent/nn/text/unicode_internal.h>

// A backtracking machine: the pattern is a list of steps, alternatives wait on a stack. A repetition of one
// set of characters, which is nearly all that tokenizers ask for, is a single step with a single entry on it.

namespace ct::text::detail {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);
// A step that waits on the stack: `low` is a mark that becomes `high` again.
constexpr std::size_t kRestore = static_cast<std::size_t>(-1);
// Budget that a character of a text adds. Real patterns take some 30 steps, and go back to few places.
constexpr std::size_t kStepsPerCharacter = 2000, kPlacesPerCharacter = 8;
constexpr std::size_t kCharactersPerStep = 4;  // that a run of one set reads

}  // namespace

void CharSet::finish() {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  std::size_t kept = 0;
  for (const Range& r : ranges) {
    if (kept > 0 && r.first <= ranges[kept - 1].last)
      ranges[kept - 1].last = std::max(ranges[kept - 1].last, r.last);
    else
      ranges[kept++] = r;
  }
  ranges.resize(kept);
  for (char32_t c = 0; c < 128; ++c)
    if (slow_contains(c)) ascii[c >> 6] |= std::uint64_t{1} << (c & 63);
}

bool CharSet::slow_contains(char32_t c) const {
  bool in = (categories >> static_cast<unsigned>(category_of(c)) & 1) != 0;
  if (!in && (space || not_space)) in = is_space(c) ? space : not_space;
  if (!in) {
    const auto after = std::upper_bound(ranges.begin(), ranges.end(), c,
                                        [](char32_t code, const Range& r) { return code < r.first; });
    in = after != ranges.begin() && c <= after[-1].last;
  }
  return in != negated;
}

// The end of the first match that begins at `at`, or kNone.
std::size_t Pattern::run(std::span<const char32_t> text, std::size_t pc, std::size_t at,
                         Budget& budget) const {
  const std::size_t floor = budget.stack.size();
  const auto wait = [&](const Budget::Entry& entry) {
    CT_CHECK(budget.stack.size() < budget.places, ValueError, op_, "the pattern '", source_,
             "' remembers too many places to go back to (", budget.places, " for this text are allowed, ",
             kPlacesPerCharacter,
             " for each character); repetitions of what has many optional parts do that: "
             "rewrite it, or make the repetition possessive");
    budget.stack.push_back(entry);
  };
  while (true) {
    CT_CHECK(budget.steps > 0, ValueError, op_, "the pattern '", source_,
             "' tries too many ways to match; repetitions within repetitions do that: rewrite it");
    --budget.steps;
    const Step& step = steps_[pc];
    bool ok = true;
    switch (step.kind) {
      case Kind::match: budget.stack.resize(floor); return at;
      case Kind::set: ok = at < text.size() && sets_[step.a].contains(text[at]), ++at, ++pc; break;
      case Kind::run: {
        const CharSet& set = sets_[step.a];
        const std::size_t low = at + step.b;
        const std::size_t begin = at;
        while (at < text.size() && set.contains(text[at])) ++at;
        budget.steps -= std::min(budget.steps, (at - begin) / kCharactersPerStep);
        ok = at >= low;
        ++pc;
        if (ok && at > low && !step.flag) wait({pc, low, at - 1});
        break;
      }
      case Kind::split:
        wait({step.b, at, at});
        pc = step.a;
        break;
      case Kind::jump: pc = step.a; break;
      case Kind::mark:
        wait({kRestore, step.a, budget.marks[step.a]});
        budget.marks[step.a] = at;
        ++pc;
        break;
      case Kind::again: pc = at == budget.marks[step.b] ? pc + 1 : step.a; break;
      case Kind::look:
      case Kind::atomic: {
        const std::size_t end = run(text, pc + 1, at, budget);
        ok = (end != kNone) != step.flag;
        if (ok && step.kind == Kind::atomic) at = end;
        pc = step.a;
        break;
      }
      case Kind::begin: ok = at == 0 || (at < text.size() && text[at - 1] == '\n'), ++pc; break;
      case Kind::end: ok = at == text.size() || text[at] == '\n', ++pc; break;
    }
    if (ok) continue;
    while (budget.stack.size() > floor && budget.stack.back().pc == kRestore) {
      budget.marks[budget.stack.back().low] = budget.stack.back().high;
      budget.stack.pop_back();
    }
    if (budget.stack.size() == floor) return kNone;
    Budget::Entry& top = budget.stack.back();
    pc = top.pc, at = top.high;
    if (top.high == top.low) {
      budget.stack.pop_back();
    } else {
      --top.high;
    }
  }
}

void Pattern::Budget::allow(std::size_t characters) {
  steps += kStepsPerCharacter * characters;
  places += kPlacesPerCharacter * characters;
}

void Pattern::find_all(std::span<const char32_t> text, std::vector<Match>& matches) const {
  Budget budget;
  budget.allow(text.size());
  find_all(text, matches, budget);
}

void Pattern::find_all(std::span<const char32_t> text, std::vector<Match>& matches, Budget& budget) const {
  matches.clear();
  budget.stack.clear();
  budget.marks.resize(std::max<std::size_t>(budget.marks.size(), marks_));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = run(text, 0, at, budget);
    if (end == kNone || end == at) {
      ++at;
      continue;
    }
    matches.push_back({at, end});
    at = end;
  }
}

}  // namespace ct::text::detail
