#include <cotangent/cotangent.h>

#include <book.h>
#include <graph.h>
#include <tape.h>

#include <chrono>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

// Chapter 2: a tape of numbers, by hand and against the library.

namespace {

using book::Tape;
using book::Var;

std::string digits(const char* label, double v) {
  char text[48];
  std::snprintf(text, sizeof text, "%s%.4f", label, v);
  return text;
}

// y = (a + b) tanh(a), and what a and b get.
void walk() {
  book::section("walk");
  Tape tape;
  const Var a = input(tape, 0.5), b = input(tape, 1.0);
  const Var s = a + b, t = tanh(a), y = s * t;
  const std::vector<double> g = tape.backward(y.at);
  for (std::size_t n = y.at + 1; n-- > 0;) {
    std::printf("%zu %-5s value %.4f  cotangent %.4f", n, tape[n].op, tape[n].value, g[n]);
    for (std::size_t i = 0; i < tape[n].count; ++i)
      std::printf("%s %zu gets %.4f", i ? "," : "  ->", tape[n].inputs[i].from,
                  g[n] * tape[n].inputs[i].slope);
    std::printf("\n");
  }
  const char* const names[] = {"a", "b", "a + b", "tanh a", "y"};
  const double x[] = {80, 80, 280, 280, 480}, height[] = {45, 135, 135, 45, 90};
  std::vector<book::Box> boxes;
  std::vector<std::pair<std::size_t, std::size_t>> arrows;
  for (std::size_t n = 0; n < tape.size(); ++n) {
    boxes.push_back(
        {x[n],
         height[n],
         {std::to_string(n) + ": " + names[n], digits("value ", tape[n].value), digits("cotangent ", g[n])}});
    for (std::size_t i = 0; i < tape[n].count; ++i) arrows.emplace_back(tape[n].inputs[i].from, n);
  }
  book::figure("02-graph", book::graph(560, 180, 130, boxes, arrows));
}

// L = log sum_i exp(tanh(w_i x_i))
Var soft_maximum(const std::vector<Var>& w, const std::vector<double>& x) {
  Var sum = exp(tanh(x[0] * w[0]));
  for (std::size_t i = 1; i < w.size(); ++i) sum = sum + exp(tanh(x[i] * w[i]));
  return log(sum);
}

std::vector<double> waves(std::size_t n, double pace) {
  std::vector<double> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = std::sin(pace * static_cast<double>(i + 1));
  return v;
}

std::vector<Var> inputs(Tape& tape, const std::vector<double>& values) {
  std::vector<Var> vars;
  for (const double v : values) vars.push_back(input(tape, v));
  return vars;
}

void library() {
  book::section("library");
  const std::vector<double> w = waves(5, 0.7), x = waves(5, 1.3);
  Tape tape;
  const std::vector<Var> vars = inputs(tape, w);
  const Var loss = soft_maximum(vars, x);
  const std::vector<double> g = tape.backward(loss.at);

  const ct::Tensor weights = ct::from_vector(w).set_requires_grad();
  const ct::Tensor L = ct::logsumexp(ct::tanh(weights * ct::from_vector(x)));
  L.backward();
  double worst = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double theirs = weights.grad().to_vector<double>()[i];
    std::printf("dL/dw_%zu  tape %9.6f  library %9.6f\n", i, g[vars[i].at], theirs);
    worst = std::max(worst, std::abs(g[vars[i].at] - theirs));
  }
  book::claim(std::abs(loss.value() - L.item<double>()) < 1e-12, "the losses are equal to 1e-12");
  book::claim(worst < 1e-12, "the gradients are equal to 1e-12");
}

void count() {
  book::section("count");
  std::printf("%8s %8s %16s %16s\n", "inputs", "nodes", "forward walks", "backward walk");
  for (const std::size_t n : {1u, 10u, 100u, 1000u}) {
    Tape tape;
    const std::vector<Var> vars = inputs(tape, waves(n, 0.7));
    const Var loss = soft_maximum(vars, waves(n, 1.3));
    const std::vector<double> g = tape.backward(loss.at);
    const long backward = std::exchange(tape.multiplications, 0);
    for (const Var v : vars)
      book::claim(std::abs(tape.forward(v.at)[loss.at] - g[v.at]) < 1e-12,
                  "both walks give the same derivative");
    std::printf("%8zu %8zu %16ld %16ld\n", n, tape.size(), tape.multiplications, backward);
  }
}

void measured() {
  book::section("measured");
  using clock = std::chrono::steady_clock;
  const std::size_t n = 200000;
  const std::vector<double> w = waves(n, 0.7), x = waves(n, 1.3);
  Tape tape;
  const std::vector<Var> vars = inputs(tape, w);
  const auto start = clock::now();
  const Var loss = soft_maximum(vars, x);
  const auto middle = clock::now();
  const std::vector<double> g = tape.backward(loss.at);
  const auto end = clock::now();
  const auto each = [&](clock::duration d) {
    return std::chrono::duration<double, std::nano>(d).count() / static_cast<double>(tape.size() - n);
  };
  std::printf("%zu nodes: %.0f ns each to compute and record, %.0f ns each to walk back\n", tape.size() - n,
              each(middle - start), each(end - middle));
}

void chapter() {
  walk();
  library();
  count();
  measured();
}

}  // namespace

int main() { return book::run(chapter); }
