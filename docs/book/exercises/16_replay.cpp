#include <book.h>

#include <16_replay.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

// Judges backward() by central differences, for formulas that were thought of and for formulas that were drawn, and counts
// what it reads.
// wrong: d[s.b] += cotangent * v[s.a]; ==> d[s.b] = cotangent * v[s.a];
// wrong: (1 - y * y) ==> (1 - y)

namespace {

using answer::Input;
using answer::Step;

constexpr std::size_t kRows = 3, kColumns = 4;

std::vector<Input> inputs(const std::vector<bool>& broadcast, std::mt19937& draw) {
  std::vector<Input> made;
  for (const bool row : broadcast) {
    made.push_back({{}, row});
    for (std::size_t i = 0; i < (row ? 1 : kRows) * kColumns; ++i)
      made.back().numbers.push_back(static_cast<double>(draw() % 2000) / 1000 - 1);
  }
  return made;
}

void check(const std::string& name, const std::vector<Step>& steps, std::vector<Input> in,
           std::mt19937& draw) {
  std::vector<double> g;
  for (std::size_t i = 0; i < kRows * kColumns; ++i)
    g.push_back(static_cast<double>(draw() % 2000) / 1000 - 1);
  const auto found = answer::backward(steps, in, g, kRows, kColumns);
  for (const Input& input : in)
    book::claim(input.reads <= static_cast<long>(kRows * kColumns),
                name + " reads each element once for each of y's");
  const auto L = [&] {
    const std::vector<double> y = answer::forward(steps, in, kRows, kColumns);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += g[i] * y[i];
    return sum;
  };
  book::claim(found.size() == in.size(), name + " has a gradient for each input");
  for (std::size_t k = 0; k < in.size(); ++k)
    for (std::size_t i = 0; i < in[k].numbers.size(); ++i) {
      double& x = in[k].numbers[i];
      const double at = x, eps = 5e-6;
      x = at + eps;
      const double up = L();
      x = at - eps;
      const double difference = (up - L()) / (2 * eps);
      x = at;
      const bool right = std::abs(found[k][i] - difference) < 1e-7 * (1 + std::abs(difference));
      if (!right)
        std::printf("%s: input %zu, element %zu: yours %.6f, by differences %.6f\n", name.c_str(), k, i,
                    found[k][i], difference);
      book::claim(right, name + " has the gradients that differences have");
    }
}

void judge() {
  std::mt19937 draw(4);
  check("y = a b", {{'*', 0, 1}}, inputs({false, false}, draw), draw);
  check("y = tanh(a + b)", {{'+', 0, 1}, {'t', 2, 2}}, inputs({false, false}, draw), draw);
  check("y = a a + a", {{'*', 0, 0}, {'+', 1, 0}}, inputs({false}, draw), draw);
  check("y = tanh(a + bias) c", {{'+', 0, 1}, {'t', 3, 3}, {'*', 4, 2}}, inputs({false, true, false}, draw),
        draw);
  for (int formula = 0; formula < 50; ++formula) {
    std::vector<Step> steps;
    for (std::size_t n = 0; n < 1 + draw() % 6; ++n) {
      const char op = "+*t"[draw() % 3];
      const std::size_t a = draw() % (3 + n), b = draw() % (3 + n);
      steps.push_back({op, a, b});
    }
    const std::vector<bool> broadcast = {draw() % 2 == 0, draw() % 2 == 0, draw() % 2 == 0};
    check("formula " + std::to_string(formula), steps, inputs(broadcast, draw), draw);
  }
  std::printf("right: 54 formulas\n");
}

}  // namespace

int main() { return book::run(judge); }
