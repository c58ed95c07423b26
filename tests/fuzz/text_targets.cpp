#include "tests/fuzz/text_targets.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

#include <malloc.h>
#include <sys/time.h>

#include <cotangent/core/base/error.h>
#include <cotangent/nn/text/bpe.h>
#include <cotangent/nn/text/bpe_internal.h>
#include <cotangent/nn/text/pattern_internal.h>
#include <cotangent/nn/text/unicode_internal.h>

#include "tests/fuzz/pattern_generator.h"

namespace {

// ---- Limits -----------------------------------------------------------------------------------------------

std::atomic<std::size_t> g_in_use{0}, g_limit{SIZE_MAX};

[[noreturn]] void stop(const char* message) {
  g_limit = SIZE_MAX;
  std::fputs(message, stderr);
  std::abort();
}
void* counted_new(std::size_t size) {
  void* p = std::malloc(size ? size : 1);
  if (p && g_in_use.fetch_add(malloc_usable_size(p)) > g_limit) stop("memory is not linear in the input\n");
  return p;
}
void counted_delete(void* p) {
  if (p) g_in_use -= malloc_usable_size(p);
  std::free(p);
}
void out_of_time(int) { stop("time is not linear in the input\n"); }

// Ends the program when more memory or processor time is taken than this, for as long as it lives.
class Limits {
 public:
  Limits(std::size_t bytes, std::size_t seconds) {
    g_limit = g_in_use + bytes;
    std::signal(SIGVTALRM, out_of_time);
    set_timer(static_cast<time_t>(seconds));
  }
  ~Limits() {
    g_limit = SIZE_MAX;
    set_timer(0);
  }
  Limits(const Limits&) = delete;
  Limits& operator=(const Limits&) = delete;

 private:
  static void set_timer(time_t seconds) {
    const itimerval value{{0, 0}, {seconds, 0}};
    setitimer(ITIMER_VIRTUAL, &value, nullptr);
  }
};

}  // namespace

// Everything that the containers take is counted; the sanitizers see malloc and free instead.
void* operator new(std::size_t size) {
  if (void* p = counted_new(size)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return counted_new(size); }
void operator delete(void* p) noexcept { counted_delete(p); }
void operator delete(void* p, std::size_t) noexcept { counted_delete(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { counted_delete(p); }

namespace ct::fuzz {
namespace {

// Slow cases show in few inputs. The others take so little time that there are many of them: running out of steps
// looks the same each time, and so does the end of a text.
constexpr std::size_t kLongText = 6000, kShortText = 400, kFewSteps = 20000;
constexpr std::size_t kLongOnceIn = 128;
constexpr std::size_t kChoices = 4096;  // what is behind them says nothing more

std::span<const std::byte> choices_of(std::span<const std::byte> input) {
  return input.first(std::min(input.size(), kChoices));
}

// Bytes for choices, of growing length, that give something which is accepted.
std::vector<std::string> random_seeds(bool (*accepts)(std::span<const std::byte>)) {
  std::vector<std::string> seeds;
  std::uint32_t state = 1;
  for (std::size_t length = 20; seeds.size() < 24; length += 10) {
    std::string seed(1, '\0');
    while (seed.size() < length) seed += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    if (accepts(std::as_bytes(std::span(seed)))) seeds.push_back(seed);
  }
  return seeds;
}

bool match(const std::string& source, const std::string& text, std::size_t steps) {
  const Limits limits((std::size_t{16} << 20) + 1000 * text.size(), 10 + text.size() / 2000);
  using text::detail::Pattern;
  try {
    const Pattern pattern("fuzz", source);
    const std::vector<char32_t> codes = text::detail::decode_utf8(text);
    std::vector<Pattern::Match> matches;
    Pattern::Budget budget;
    budget.allow(codes.size());
    budget.steps = std::min(budget.steps, steps);
    pattern.find_all(codes, matches, budget);
    std::size_t at = 0;
    for (const Pattern::Match& m : matches) {
      if (m.begin < at || m.end <= m.begin || m.end > codes.size()) std::abort();
      at = m.end;
    }
  } catch (const ValueError&) { return false; }
  return true;
}

}  // namespace

bool match_pattern(std::span<const std::byte> input) {
  const auto first = input.empty() ? 0u : static_cast<unsigned>(input[0]);
  if (first >= 0x80) {
    const bool whole = first % kLongOnceIn == kLongOnceIn - 1;
    const std::string all(reinterpret_cast<const char*>(input.data()) + 1, input.size() - 1);
    const std::size_t end = std::min(all.find('\x1e'), all.size());
    return match(all.substr(0, end),
                 all.substr(std::min(end + 1, all.size()), whole ? kLongText : kShortText),
                 whole ? SIZE_MAX : kFewSteps);
  }
  Choices choices(choices_of(input));
  const bool whole = choices.one_in(kLongOnceIn);
  const std::string source = make_pattern(choices);
  return match(source, make_text(choices, whole ? kLongText : kShortText), whole ? SIZE_MAX : kFewSteps);
}

std::vector<std::string> pattern_seeds() {
  std::vector<std::string> seeds = random_seeds(match_pattern);
  const std::string gpt2 = text::detail::kGpt2Pattern, end = "\x1e";
  seeds.push_back("\x80" + gpt2 + end + "it's 1234 o'clock,  we'll   see\n\n them!");
  seeds.push_back(R"((?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s*[\r\n]+|\s+(?!\S)|\s+)" + end +
                  "IT'S 12345 \r\n a");
  seeds.back().insert(0, 1, '\x80');
  seeds.push_back("\xff(a?)*!|(?:a|(?>b*+c)){2,5}?" + end + std::string(500, 'a') + "!");
  seeds.push_back("\x80(){10}a" + end + "aa");
  return seeds;
}

bool run_normalizers(std::span<const std::byte> input) {
  Choices choices(choices_of(input));
  const bool whole = choices.one_in(kLongOnceIn);
  const std::string file = make_tokenizer(choices);
  const std::string text = make_text(choices, whole ? kLongText / 4 : kShortText / 4);
  const Limits limits((std::size_t{32} << 20) + 10000 * text.size() + 1000 * file.size(),
                      20 + text.size() / 100);
  try {
    const auto tokenizer = text::BpeTokenizer::from_json(file);
    (void)tokenizer.decode(tokenizer.encode(text));
  } catch (const Error&) { return false; }
  return true;
}

std::vector<std::string> normalizer_seeds() { return random_seeds(run_normalizers); }

}  // namespace ct::fuzz
