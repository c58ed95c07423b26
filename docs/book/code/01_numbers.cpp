#include <cotangent/cotangent.h>

#include <book.h>
#include <examples/common/svg.h>

#include <chrono>
#include <cmath>
#include <vector>

// Chapter 1: rounding in sums, variances and softmax, and the remedies.

namespace {

void spacing() {
  book::section("spacing");
  for (const float x : {1.f, 1000.f, 1e6f, 16777216.f})
    std::printf("next to %9.0f: %.9g further on\n", x, std::nextafter(x, INFINITY) - x);
  std::printf("16777216 + 1 = %.0f\n", 16777216.f + 1.f);
}

/// One running total.
float naive_sum(const float* x, std::size_t n) {
  float total = 0;
  for (std::size_t i = 0; i < n; ++i) total += x[i];
  return total;
}

/// The sum of the first half plus the sum of the second.
float pairwise_sum(const float* x, std::size_t n) {
  if (n <= 8) return naive_sum(x, n);
  return pairwise_sum(x, n / 2) + pairwise_sum(x + n / 2, n - n / 2);
}

void sums() {
  book::section("sum");
  const std::size_t n = 10'000'000;
  const std::vector<float> x(n, 0.1f);
  const double truth = static_cast<double>(0.1f) * static_cast<double>(n);
  const auto row = [&](const char* name, double sum) {
    std::printf("%-14s %15.4f   off by %.1e of it\n", name, sum, std::abs(sum - truth) / truth);
    return std::abs(sum - truth) / truth;
  };
  std::printf("%-14s %15.4f\n", "exact", truth);
  book::claim(row("running total", naive_sum(x.data(), n)) > 0.05, "a running total is off by more than 5 %");
  const double pairs = std::abs(pairwise_sum(x.data(), n) - truth) / truth;
  const double library = std::abs(ct::sum(ct::from_vector(x)).item() - truth) / truth;
  book::claim(pairs < 1e-6 && library < 1e-6, "sums in pairs and the library's are good to 1e-6");
  std::printf("in pairs, and ct::sum: off by less than 1e-6 of it\n");

  double worst = 0;
  svg::Curve one{"running total", "#c33", {}, {}}, two{"in pairs", "#36a", {}, {}};
  for (std::size_t m = 100; m <= n; m *= 10)
    for (const std::size_t k : {m, 2 * m, 5 * m}) {
      if (k > n) break;
      const double exact = static_cast<double>(0.1f) * static_cast<double>(k);
      const auto error = [&](double sum) { return std::abs(sum - exact) / exact; };
      const double of_pairs = error(pairwise_sum(x.data(), k));
      worst = std::max(worst, of_pairs);
      one.x.push_back(std::log10(static_cast<double>(k))), two.x.push_back(one.x.back());
      one.y.push_back(std::log10(error(naive_sum(x.data(), k)))), two.y.push_back(std::log10(of_pairs));
    }
  book::claim(worst < 1.8e-7, "sums in pairs stay within three roundings");
  book::figure("01-sum", svg::chart("Adding up 0.1 in f32", "log10 of how many",
                                    "log10 of the relative error", {one, two}));
}

/// mean(x^2) - mean(x)^2: one pass, and a difference of large numbers.
float naive_variance(const std::vector<float>& x) {
  float sum = 0, squares = 0;
  for (const float v : x) sum += v, squares += v * v;
  const auto n = static_cast<float>(x.size());
  return squares / n - sum / n * (sum / n);
}

/// The mean first, then the mean of (x - mean)^2.
float two_pass_variance(const std::vector<float>& x) {
  const auto n = static_cast<float>(x.size());
  const float mean = naive_sum(x.data(), x.size()) / n;
  float squares = 0;
  for (const float v : x) squares += (v - mean) * (v - mean);
  return squares / n;
}

void variance() {
  book::section("variance");
  std::vector<float> x;
  for (int i = 0; i < 1000; ++i) x.push_back(1e4f + static_cast<float>(i % 5));
  const double library = ct::var(ct::from_vector(x), {}, 0).item();
  std::printf("10000 to 10004, again and again, 1000 numbers: the variance is 2\n");
  std::printf("one pass   %8.1f\ntwo passes %8.1f\nct::var    %8.1f\n", naive_variance(x),
              two_pass_variance(x), library);
  book::claim(naive_variance(x) < 0, "one pass gives a variance below 0");
  book::claim(two_pass_variance(x) == 2 && std::abs(library - 2) < 1e-5, "two passes are right");
}

std::vector<float> naive_softmax(const std::vector<float>& x) {
  std::vector<float> y;
  float sum = 0;
  for (const float v : x) y.push_back(std::exp(v)), sum += y.back();
  for (float& v : y) v /= sum;
  return y;
}

void softmax() {
  book::section("softmax");
  const std::vector<float> x = {1000, 1001, 1002};
  const std::vector<float> naive = naive_softmax(x),
                           library = ct::softmax(ct::from_vector(x), 0).to_vector<float>();
  book::claim(std::isnan(naive[2]), "exp(1000) / exp(1002) in f32 is infinity by infinity, no number");
  std::printf("x = 1000, 1001, 1002: exp(1000) in f32 is %.0f; exp(1000) / (their sum): not a number\n",
              std::exp(x[0]));
  std::printf("ct::softmax: %.4f %.4f %.4f\n", library[0], library[1], library[2]);
  book::claim(std::abs(library[2] - 0.6652) < 1e-4, "the library's softmax is right");
}

void cross_entropy() {
  book::section("cross_entropy");
  const std::vector<float> x = {0, 200};  // the right class is the first
  const float p = ct::softmax(ct::from_vector(x), 0).to_vector<float>()[0];
  const double loss =
      ct::cross_entropy(ct::from_vector(x).unsqueeze(0), ct::tensor({std::int64_t{0}})).item();
  std::printf(
      "x = 0, 200, and the first is right: p = softmax(x)_0 = %g, -log p = %g\nct::cross_entropy: %.1f\n", p,
      -std::log(p), loss);
  book::claim(std::isinf(-std::log(p)) && loss == 200,
              "the logarithm of a rounded 0 is infinite, the loss is 200");
}

void measured() {
  book::section("measured");
  using clock = std::chrono::steady_clock;
  const std::vector<float> x(10'000'000, 0.1f);
  const ct::Tensor t = ct::from_vector(x);
  const auto best = [](const auto& f) {
    double least = INFINITY;
    for (int i = 0; i < 5; ++i) {
      const auto start = clock::now();
      book::claim(f() > 0, "a sum of positive numbers is positive");
      least = std::min(least, std::chrono::duration<double, std::milli>(clock::now() - start).count());
    }
    return least;
  };
  const double naive = best([&] { return naive_sum(x.data(), x.size()); });
  const double pairs = best([&] { return pairwise_sum(x.data(), x.size()); });
  const double library = best([&] { return ct::sum(t).item<float>(); });
  std::printf("10 million additions: running total %.1f ms, in pairs %.1f ms, ct::sum %.1f ms\n", naive,
              pairs, library);
}

void chapter() {
  spacing();
  sums();
  variance();
  softmax();
  cross_entropy();
  measured();
}

}  // namespace

int main() { return book::run(chapter); }
