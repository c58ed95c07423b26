#include <book.h>

#include <09b_timing.h>

#include <cmath>
#include <random>

// Judges times_as_long() on machines whose clock is the judge's.
// wrong: found.push_back(b() / of_a); ==> found.push_back(b() - of_a);
// wrong: return found[15]; ==> double sum = 0;\n  for (const double f : found) sum += f / 31;\n  return sum;

namespace {

/// A machine on which a call takes longer while others work: `slow` gives the factor at a time.
template <class Slow>
void on(const char* name, Slow slow) {
  for (const double wanted : {1.05, 0.5, 3.0}) {
    double now = 0;
    int calls = 0;
    std::mt19937 draw(5);
    bool warm_a = false, warm_b = false;
    const auto call = [&](double length, bool& warm) {
      book::claim(++calls <= 80, "there are no more than 80 calls");
      const double jitter = 1 + 0.01 * static_cast<double>(draw() % 1000) / 1000;
      const double took = length * slow(now) * jitter * (warm ? 1 : 20);
      warm = true, now += took;
      return took;
    };
    const double found =
        answer::times_as_long([&] { return call(1, warm_a); }, [&] { return call(wanted, warm_b); });
    std::printf("%-34s b takes %.2f times as long as a; found %.3f\n", name, wanted, found);
    book::claim(std::abs(found / wanted - 1) < 0.02, "the answer is right to 2 %");
  }
}

void judge() {
  on("alone:", [](double) { return 1.0; });
  on("slow from the middle on:", [](double now) { return now < 45 ? 1.0 : 1.7; });
  on("slow for a while, now and then:", [](double now) { return std::fmod(now, 40) < 9 ? 2.5 : 1.0; });
  on("slower and slower:", [](double now) { return 1 + now / 200; });
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
