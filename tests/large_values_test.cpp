#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/cotangent.h>

#include "tests/catch.h"

// Functions of rows of scores where those are so large that only their differences count: value, gradient by kernels and by
// rules, and second derivative, in every dtype against f64 of the same numbers.

namespace {

using namespace ct;

struct Scored {
  const char* name;
  std::function<Tensor(const Tensor&)> f;  // of rows [3, columns]
  bool finite = false;                     // an infinity has no finite value
};

Tensor classes(const Tensor& x) { return tensor({0, 1, 2}).to(x.device()); }
Tensor shares(const Tensor& x) {  // a distribution over columns, all of it positive
  const Tensor w = arange(1, x.size(1) + 1, {.dtype = f64}).expand({3, x.size(1)});
  return (w / sum(w, {1}, true)).to(x.device(), x.dtype());
}
Tensor identity(const Tensor& x) { return eye(x.size(1), {.dtype = x.dtype(), .device = x.device()}); }

std::vector<Scored> functions() {
  return {
      {"softmax", [](const Tensor& x) { return softmax(x, 1); }},
      {"softmax by columns", [](const Tensor& x) { return softmax(x.t().contiguous(), 0); }},
      {"softmin", [](const Tensor& x) { return softmax(-x, 1); }, true},
      {"masked_softmax", [](const Tensor& x) { return masked_softmax(x, zeros_like(x.detach())); }},
      {"mask of softmax", [](const Tensor& x) { return masked_softmax(zeros_like(x.detach()), x); }},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x, 1); }},
      {"log_softmax by columns", [](const Tensor& x) { return log_softmax(x.t().contiguous(), 0); }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, {1}); }},
      {"logcumsumexp", [](const Tensor& x) { return logcumsumexp(x, 1); }},
      {"cross_entropy", [](const Tensor& x) { return cross_entropy(x, classes(x)); }},
      {"cross_entropy, smooth",
       [](const Tensor& x) { return cross_entropy(x, classes(x), {.label_smoothing = 0.1}); }},
      {"cross_entropy of each",
       [](const Tensor& x) { return cross_entropy(x, classes(x), {.reduction = Reduction::none}); }},
      {"cross_entropy, soft", [](const Tensor& x) { return cross_entropy(x, shares(x)); }},
      {"nll_loss of log_softmax", [](const Tensor& x) { return nll_loss(log_softmax(x, 1), classes(x)); }},
      {"linear_cross_entropy",
       [](const Tensor& x) { return linear_cross_entropy(x, identity(x), classes(x), {.recompute = true}); },
       true},
      {"linear_cross_entropy, weight",
       [](const Tensor& x) {
         return linear_cross_entropy(eye(3, {.dtype = x.dtype(), .device = x.device()}), x.t(), classes(x),
                                     {.recompute = true});
       },
       true},
      {"kl_div", [](const Tensor& x) { return kl_div(log_softmax(x, 1), shares(x)); }},
      {"bce_with_logits", [](const Tensor& x) { return bce_with_logits(x, shares(x)); }},
      {"bce_with_logits of labels",
       [](const Tensor& x) { return bce_with_logits(x, gt(shares(x), 0.2).to(x.dtype())); }, true},
      {"softplus", [](const Tensor& x) { return softplus(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
      {"log of sigmoid", [](const Tensor& x) { return -softplus(-x); }},
  };
}

using Results = std::vector<std::pair<const char*, Tensor>>;
Results results(const Scored& s, const Tensor& rows) {
  const Tensor x = rows.detach().set_requires_grad();
  const Tensor y = s.f(x);
  Generator generator(3);
  const Tensor g = rand(y.shape(), {.dtype = f64}, generator).to(y.device(), y.dtype());
  const Tensor v = rand(x.shape(), {.dtype = f64}, generator).to(x.device(), x.dtype());
  const Tensor outputs[] = {y}, inputs[] = {x}, cotangents[] = {g};
  const Tensor dx = grad(outputs, inputs, cotangents, {.retain_graph = true})[0];
  const Tensor recorded = grad(outputs, inputs, cotangents, {.retain_graph = true, .create_graph = true})[0];
  Results all{{"value", y.detach()}, {"gradient", dx}, {"recorded gradient", recorded.detach()}};
  if (!recorded.requires_grad()) return all;
  const Tensor roots[] = {recorded}, weights[] = {v};
  all.emplace_back("second derivative", grad(roots, inputs, weights)[0]);
  return all;
}

// Rows of scores, by what is in column j of row i.
struct Pattern {
  const char* name;
  std::function<double(double large, int i, int j)> at;
  bool infinite = false;
};
const Pattern kPatterns[] = {
    {"equal", [](double large, int, int) { return large; }},
    {"small differences", [](double large, int i, int j) { return large + (i + j) % 5; }},
    {"differences in its digits",
     [](double large, int i, int j) { return large * (1 - 0x1p-7 * ((i + j) % 3)); }},
    {"both signs", [](double large, int i, int j) { return (i + j) % 2 ? large : -large; }},
    {"one large", [](double large, int i, int j) { return j == i ? large : j; }},
    {"one -inf", [](double large, int i, int j) { return j == i + 1 ? -HUGE_VAL : large; }, true},
};

// The first number that differs, in words. What f64 has beyond the dtype's largest number may be infinite.
std::string difference(const Results& got, const Results& want, double largest, double tolerance) {
  for (std::size_t k = 0; k < want.size(); ++k) {
    const std::vector<double> a = got[k].second.to(f64).to_vector<double>(),
                              b = want[k].second.to_vector<double>();
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i] && std::abs(b[i]) <= largest &&
          !(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i]))))
        return want[k].first + std::string(" is ") + std::to_string(a[i]) + ", want " + std::to_string(b[i]);
  }
  return {};
}

void check_large_values(Device device) {
  const struct {
    DType dtype;
    double largest, most, tolerance;  // sums of `most` and differences stay in its range
  } dtypes[] = {{f64, 1.7e308, 1e304, 1e-12},
                {f32, 3.4e38, 1e35, 2e-5},
                {f16, 65504, 3e4, 5e-3},
                {bf16, 3.38e38, 1e35, 3e-2}};
  for (const Scored& s : functions())
    for (const auto& [dtype, largest, most, tolerance] : dtypes)
      for (const Pattern& pattern : kPatterns)
        for (const double size : {1e3, 1e6, 1e9, 1e30, most})
          for (const double large : {size, -size})
            for (const int columns : {3, 5, 70}) {
              if (size > most || (s.finite && pattern.infinite)) continue;
              const Tensor rows = Tensor::allocate({3, columns}, f64, cpu);
              for (int i = 0; i < 3; ++i)
                for (int j = 0; j < columns; ++j)
                  rows.data<double>()[i * columns + j] = pattern.at(large, i, j);
              const Tensor x = rows.to(dtype);
              CAPTURE(s.name, dtype, pattern.name, large, columns);
              CHECK(difference(results(s, x.to(device)), results(s, x.to(f64)), largest, tolerance) == "");
            }
}

}  // namespace

TEST_CASE("functions of scores go by the differences, however large they are", "[loss]") {
  check_large_values(cpu);
}
TEST_CASE("functions of scores on CUDA go by the differences, too", "[loss][cuda]") {
  check_large_values(cuda(0));
}
