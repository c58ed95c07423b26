#include <cotangent/cotangent.h>

#include <book.h>

#include <19_text.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

// Judges probabilities() by how often the library draws each token.
// wrong: if (top_p < 1) keep_from(x); ==> if (top_p < 1) keep_from(std::nextafter(x, 9.0));
// wrong: >= top_p * left ==> >= top_p

namespace {

void check(const char* name, const std::vector<double>& logits, const ct::SampleOptions& options) {
  const auto n = static_cast<std::int64_t>(logits.size());
  const std::int64_t draws = 40000;
  const ct::Tensor rows = ct::from_vector(logits).unsqueeze(0).expand({draws, n});
  std::vector<double> drawn(logits.size());
  for (const std::int64_t id : ct::sample_logits(rows, options).to_vector<std::int64_t>())
    drawn[static_cast<std::size_t>(id)] += 1.0 / static_cast<double>(draws);
  const std::vector<double> yours = answer::probabilities(
      logits, options.temperature, static_cast<std::size_t>(options.top_k), options.top_p);
  book::claim(yours.size() == logits.size(), std::string(name) + ": there is a probability for each token");
  double sum = 0;
  for (std::size_t i = 0; i < yours.size(); ++i) {
    char found[160];
    std::snprintf(found, sizeof found,
                  ": token %zu of %zu (logit %.2f) is drawn with probability %.3f, yours is %.3f", i,
                  yours.size(), logits[i], drawn[i], yours[i]);
    // Five standard deviations of what is counted.
    book::claim(std::abs(yours[i] - drawn[i]) <= 5 * std::sqrt(drawn[i] / static_cast<double>(draws)) + 2e-4,
                name + std::string(found));
    book::claim(drawn[i] == 0 || yours[i] > 0, std::string(name) + ": what is drawn is not excluded");
    sum += yours[i];
  }
  book::claim(std::abs(sum - 1) < 1e-9, std::string(name) + ": the probabilities add up to 1");
  std::printf("%-28s as the library draws\n", name);
}

void judge() {
  ct::manual_seed(1);
  const std::vector<double> six{4, 3, 2.5, 1, 0, -1}, equal{1, 2, 2, 2, 0}, sure{50, 0, 0};
  std::mt19937 draw(1);
  std::vector<double> many;
  for (int i = 0; i < 40; ++i) many.push_back(static_cast<double>(draw() % 1000) / 200);
  check("temperature 2", six, {.temperature = 2});
  check("top_k 3", six, {.top_k = 3});
  check("top_k 1 of three equal", equal, {.top_k = 1});
  check("top_k of more than there are", equal, {.top_k = 9});
  check("top_p 0.8", six, {.top_p = 0.8});
  check("top_p 0.1: one is left", six, {.top_p = 0.1});
  check("top_p of equal ones", equal, {.top_p = 0.5});
  check("one is sure", sure, {.top_k = 2, .top_p = 0.9});
  check("both: p of what k left", six, {.top_k = 3, .top_p = 0.85});
  check("all three, 40 tokens", many, {.temperature = 0.7, .top_k = 20, .top_p = 0.6});
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
