#include <cotangent/core/op/registry.h>
#include <cotangent/cotangent.h>

#include <book.h>
#include <examples/common/svg.h>

#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

// Chapter 12: rows that are wanted more than once. The bound of an op, the online softmax, a variance that loses
// its digits, and the two numbers that cross_entropy keeps of a row.

namespace {

using ct::Tensor;

// --- the roofline ---

constexpr double kPeak = 67e12,
                 kMemory = 4.8e12;  // operations and bytes a second of an H200 in f32, as its maker says

void roofline() {
  book::section("roofline");
  struct Case {
    const char* name;
    std::vector<ct::TensorMeta> in, out;
  };
  const ct::TensorMeta rows{{32768, 4096}, ct::f32, {}}, a{{4096, 4096}, ct::f32, {}};
  const std::vector<Case> cases = {{"add", {rows, rows}, {rows}},
                                   {"softmax", {rows}, {rows}},
                                   {"layer_norm", {rows}, {rows}},
                                   {"cross_entropy", {rows, {{32768}, ct::i64, {}}}, {{{}, ct::f32, {}}}},
                                   {"matmul", {a, a}, {a}}};
  std::printf("the balance of the machine: %.0f operations a byte\n", kPeak / kMemory);
  std::printf("op             operations      bytes   operations a byte   at most, of the peak\n");
  // A decade is 120 wide and 100 high; at (-1.5, -1) is the corner.
  const auto at = [](double intensity, double rate) {
    return std::pair(60 + 120 * (std::log10(intensity) + 1.5), 350 - 100 * (std::log10(rate / 1e12) + 1));
  };
  std::ostringstream out;
  const auto text = [&](double x, double y, const std::string& words, const char* how = "") {
    out << "<text x='" << x << "' y='" << y << "' " << how << '>' << words << "</text>\n";
  };
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 640 400' font-family='sans-serif' "
         "font-size='12'>\n"
         "<rect width='640' height='400' fill='white'/>\n";
  for (const double x : {0.1, 1., 10., 100., 1000.}) {
    const double px = at(x, 1e12).first;
    out << "<path stroke='#e4e4e4' d='M" << px << " 50V350'/>\n";
    text(px, 366, svg::number(x), "text-anchor='middle'");
  }
  for (const double y : {0.1, 1., 10., 100.}) {
    const double py = at(1, y * 1e12).second;
    out << "<path stroke='#e4e4e4' d='M60 " << py << "H600'/>\n";
    text(54, py + 4, svg::number(y), "text-anchor='end'");
  }
  text(330, 388, "operations a byte", "text-anchor='middle'"), text(60, 36, "TFLOP/s");
  const auto low = at(0.04, 0.04 * kMemory), ridge = at(kPeak / kMemory, kPeak);
  out << "<path fill='none' stroke='#c33' stroke-width='2' d='M" << low.first << ' ' << low.second << 'L'
      << ridge.first << ' ' << ridge.second << "H600'/>\n";
  text(ridge.first + 8, ridge.second - 8, "the units: 67 TFLOP/s", "fill='#c33'");
  text(at(3, 3 * kMemory).first - 8, at(3, 3 * kMemory).second, "memory: 4.8 TB/s",
       "fill='#c33' text-anchor='end'");
  for (const Case& c : cases) {
    const ct::Cost cost = ct::cost_of(*ct::find_op(c.name), c.in, c.out, {});
    const double intensity = cost.flops / cost.bytes, share = std::min(1.0, intensity * kMemory / kPeak);
    std::printf("%-13s %11.2e %10.2e %19.2f %20.1f %%\n", c.name, cost.flops, cost.bytes, intensity,
                100 * share);
    const auto [x, y] = at(intensity, share * kPeak);
    out << "<circle cx='" << x << "' cy='" << y << "' r='4' fill='#36a'/>";
    text(x + 8, y + 14, c.name, "fill='#36a'");
  }
  book::figure("12-roofline", out.str() + "</svg>\n");
}

// --- the online softmax ---

/// State of the online softmax after a part of a row: its maximum m, and s = sum e^(x - m).
struct Seen {
  double m = -INFINITY, s = 0;

  void add(double x) {
    const double top = std::max(m, x);
    s = s * std::exp(m - top) + std::exp(x - top);
    m = top;
  }
};

/// Combines the states of two parts of a row.
Seen join(const Seen& a, const Seen& b) {
  const double top = std::max(a.m, b.m);
  return {top, a.s * std::exp(a.m - top) + b.s * std::exp(b.m - top)};
}

void online() {
  book::section("online");
  const std::vector<double> x = {1, 3, 2, 5, 4, 6};
  Seen seen, left, right;
  std::printf("x   maximum   the sum is multiplied by   sum\n");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double before = seen.m;
    seen.add(x[i]), (i < x.size() / 2 ? left : right).add(x[i]);
    std::printf("%.0f %9.0f %26.4f %5.4f\n", x[i], seen.m, i ? std::exp(before - seen.m) : 0.0, seen.s);
  }
  const Seen joined = join(left, right);
  std::printf(
      "1 3 2:  maximum %.0f, sum %.4f\n5 4 6:  maximum %.0f, sum %.4f\njoined: maximum %.0f, sum %.4f\n",
      left.m, left.s, right.m, right.s, joined.m, joined.s);
  const std::vector<double> y = ct::softmax(ct::from_vector(x), 0).to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i)
    for (const Seen& all : {seen, joined})
      book::claim(std::abs(std::exp(x[i] - all.m) / all.s - y[i]) < 1e-15, "e^(x - m) / s is ct::softmax");
}

// --- the shortcut of layer_norm ---

struct Statistics {
  float mean, variance;
};

/// sum f(x), added in pairs (chapter 1), as the threads of a block do.
template <class F>
float sum_of(const float* x, std::size_t n, F f) {
  return n == 1 ? f(x[0]) : sum_of(x, n / 2, f) + sum_of(x + n / 2, n - n / 2, f);
}

Statistics two_walks(const std::vector<float>& x) {
  const auto n = static_cast<float>(x.size());
  const float mean = sum_of(x.data(), x.size(), [](float v) { return v; }) / n;
  return {mean, sum_of(x.data(), x.size(), [=](float v) { return (v - mean) * (v - mean); }) / n};
}

/// mean(x^2) - mean(x)^2, both of x - shift: one walk is enough for the two sums.
Statistics one_walk(const std::vector<float>& x, float shift) {
  const auto n = static_cast<float>(x.size());
  const float mean = sum_of(x.data(), x.size(), [=](float v) { return v - shift; }) / n;
  const float square = sum_of(x.data(), x.size(), [=](float v) { return (v - shift) * (v - shift); }) / n;
  return {shift + mean, square - mean * mean};
}

void digits() {
  book::section("digits");
  std::printf("mean / deviation   mean(x^2) - mean(x)^2   of x - x_0   two walks   u (mean / deviation)^2\n");
  svg::Curve plain{"mean(x^2) - mean(x)^2", "#c33", {}, {}}, shifted{"of x - x_0", "#2a2", {}, {}},
      twice{"two walks", "#36a", {}, {}};
  for (const double ratio : {1., 3., 10., 30., 100., 300., 1000., 3000., 10000.}) {
    std::vector<float> x;
    std::uint32_t state = 1;
    for (int i = 0; i < 4096; ++i) {
      state = state * 1664525 + 1013904223;  // evenly from -sqrt(3) to sqrt(3): deviation 1
      x.push_back(static_cast<float>(ratio + (state / 4294967296.0 - 0.5) * 3.4641016));
    }
    double mean = 0, variance = 0;
    for (const float v : x) mean += v / 4096.0;
    for (const float v : x) variance += (v - mean) * (v - mean) / 4096;
    const auto error = [&](const Statistics& s) {
      return std::max(1e-9, std::abs(s.variance - variance) / variance);
    };
    const double errors[] = {error(one_walk(x, 0)), error(one_walk(x, x[0])), error(two_walks(x))};
    int i = 0;
    for (svg::Curve* c : {&plain, &shifted, &twice})
      c->x.push_back(std::log10(ratio)), c->y.push_back(std::log10(errors[i++]));
    if (plain.x.size() % 2 == 1)
      std::printf("%16.0f %23.0e %12.0e %11.0e %24.0e\n", ratio, errors[0], errors[1], errors[2],
                  6e-8 * ratio * ratio);
    book::claim(errors[1] < 1e-4 && errors[2] < 1e-4,
                "what is taken around the row's own values keeps its digits");
  }
  book::figure("12-digits", svg::chart("The variance of 4096 numbers in f32", "log10 of mean / deviation",
                                       "log10 of the relative error", {plain, shifted, twice}));
}

// --- cross-entropy ---

void two_numbers() {
  book::section("cross_entropy");
  const std::vector<float> x = {1'000'000, 1'000'001, 1'000'002};
  const double exact = 1e6 + std::log(1 + std::exp(1.0) + std::exp(2.0));
  const auto rounded = static_cast<float>(exact);
  const auto lost = static_cast<float>(exact - rounded);
  std::printf("lse %.6f, in f32 %.6f, which has lost %.6f\n", exact, rounded, lost);
  const auto row = [&](const char* name, float rest) {
    std::printf("%-22s", name);
    float sum = 0;
    for (const float v : x) {
      const float p = std::exp(v - rounded - rest);
      std::printf(" %.4f", p), sum += p;
    }
    std::printf("   sum %.4f\n", sum);
    return sum;
  };
  book::claim(std::abs(row("e^(x - lse), rounded", 0) - 1) > 0.01,
              "an lse of f32 is not enough near a million");
  book::claim(std::abs(row("with what it has lost", lost) - 1) < 1e-6, "two numbers are");

  const Tensor logits = ct::from_vector(x).unsqueeze(0).set_requires_grad();
  ct::cross_entropy(logits, ct::tensor({std::int64_t{2}})).backward();
  const std::vector<float> dx = logits.grad().to_vector<float>();
  std::printf("ct::cross_entropy's dx  %.4f %.4f %.4f\n", dx[0], dx[1], dx[2]);
  for (std::size_t c = 0; c < 3; ++c)
    book::claim(std::abs(dx[c] - (std::exp(x[c] - rounded - lost) - (c == 2 ? 1 : 0))) < 1e-5,
                "the gradient is p - [c = t], with p from the two numbers");
}

void chapter() {
  roofline();
  online();
  digits();
  two_numbers();
}

}  // namespace

int main() { return book::run(chapter); }
