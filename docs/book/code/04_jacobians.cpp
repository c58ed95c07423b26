#include <cotangent/cotangent.h>
#include <cotangent/ops/testing/gradcheck.h>

#include <book.h>
#include <examples/common/svg.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

// Chapter 4: the matrix of derivatives, the product that is taken with it, and how to know that it is right.

namespace {

using ct::Tensor;

std::vector<double> softmax(const std::vector<double>& x) {
  std::vector<double> y;
  double sum = 0;
  for (const double v : x) y.push_back(std::exp(v)), sum += y.back();
  for (double& v : y) v /= sum;
  return y;
}

/// J[j][i] = dy_j/dx_i = y_j ([i = j] - y_i)
std::vector<std::vector<double>> softmax_jacobian(const std::vector<double>& y) {
  std::vector<std::vector<double>> J(y.size(), std::vector<double>(y.size()));
  for (std::size_t j = 0; j < y.size(); ++j)
    for (std::size_t i = 0; i < y.size(); ++i) J[j][i] = y[j] * ((i == j ? 1 : 0) - y[i]);
  return J;
}

/// dx_i = y_i (g_i - sum_j g_j y_j): the same product, without the matrix.
std::vector<double> softmax_vjp(const std::vector<double>& y, const std::vector<double>& g) {
  double sum = 0;
  for (std::size_t j = 0; j < y.size(); ++j) sum += g[j] * y[j];
  std::vector<double> dx;
  for (std::size_t i = 0; i < y.size(); ++i) dx.push_back(y[i] * (g[i] - sum));
  return dx;
}

void jacobian() {
  book::section("jacobian");
  const std::vector<double> x = {1, 2, 3}, g = {1, -1, 0.5}, y = softmax(x);
  const auto J = softmax_jacobian(y);
  std::vector<double> dx(3, 0.0);
  for (std::size_t j = 0; j < 3; ++j) {
    std::printf("dy_%zu/dx  %8.4f %8.4f %8.4f\n", j, J[j][0], J[j][1], J[j][2]);
    for (std::size_t i = 0; i < 3; ++i) dx[i] += g[j] * J[j][i];
  }
  const std::vector<double> short_way = softmax_vjp(y, g);
  const auto op = [](const Tensor& t) { return ct::softmax(t, 0); };
  const auto [value, library] = ct::vjp(op, ct::from_vector(x), ct::from_vector(g));
  const std::vector<double> column =
      ct::jvp(op, ct::from_vector(x), ct::from_vector(std::vector<double>{1, 0, 0}))
          .derivative.to_vector<double>();
  const auto print = [](const char* name, const std::vector<double>& v) {
    std::printf("%-20s %8.4f %8.4f %8.4f\n", name, v[0], v[1], v[2]);
  };
  print("J^T g, by the matrix", dx);
  print("by the formula", short_way);
  print("ct::vjp", library.to_vector<double>());
  print("ct::jvp, (1, 0, 0)", column);
  for (std::size_t i = 0; i < 3; ++i) {
    book::claim(std::abs(dx[i] - short_way[i]) < 1e-12, "both ways are the same product");
    book::claim(std::abs(dx[i] - library.to_vector<double>()[i]) < 1e-12, "the library's is the same");
    book::claim(std::abs(column[i] - J[i][0]) < 1e-12, "a jvp along one x is a column");
  }
}

// A Jacobian that is no square shows which of its sides a product stands on.
void directions() {
  book::section("directions");
  const auto f = [](const Tensor& x) { return x.narrow(0, 0, 2) * x.narrow(0, 1, 2); };
  const Tensor x = ct::from_vector(std::vector<double>{1, 2, 3}),
               v = ct::from_vector(std::vector<double>{1, -1, 0.5});
  const auto [y, gradient] = ct::vjp(f, x, ct::from_vector(std::vector<double>{1, 1}));
  const std::vector<double> along = ct::jvp(f, x, v).derivative.to_vector<double>(),
                            between = ((f(x + v * 1e-6) - f(x - v * 1e-6)) / 2e-6).to_vector<double>(),
                            back = gradient.to_vector<double>();
  std::printf("y = (x0 x1, x1 x2) at (1, 2, 3)\n");
  std::printf("ct::jvp along v = (1, -1, 0.5)      %8.4f %8.4f\n", along[0], along[1]);
  std::printf("differences of y along v            %8.4f %8.4f\n", between[0], between[1]);
  std::printf("ct::vjp of g = (1, 1)               %8.4f %8.4f %8.4f\n", back[0], back[1], back[2]);
  for (std::size_t i = 0; i < 2; ++i)
    book::claim(std::abs(along[i] - between[i]) < 1e-6, "a jvp says how y changes along v");
}

// f = 1 / (1 + x^2) is made of +, * and / alone, which every machine rounds alike: the picture is the same everywhere.
double f(double x) { return 1 / (1 + x * x); }
double slope(double x) { return -2 * x / ((1 + x * x) * (1 + x * x)); }

/// The largest error of (f(x + eps) - f(x - eps)) / (2 eps) at some places, and of the difference to one side.
double central_error(double eps) {
  double worst = 0;
  for (double x = 0.25; x < 1.5; x += 0.125)
    worst = std::max(worst, std::abs((f(x + eps) - f(x - eps)) / (2 * eps) - slope(x)));
  return worst;
}
double one_sided_error(double eps) {
  double worst = 0;
  for (double x = 0.25; x < 1.5; x += 0.125)
    worst = std::max(worst, std::abs((f(x + eps) - f(x)) / eps - slope(x)));
  return worst;
}

void differences() {
  book::section("differences");
  svg::Curve central{"central", "#36a", {}, {}}, one_sided{"one-sided", "#c33", {}, {}};
  double best = 1, least = INFINITY;
  for (double tenth = -100; tenth <= -10; tenth += 2) {
    const double eps = std::pow(10, tenth / 10);
    central.x.push_back(tenth / 10), one_sided.x.push_back(tenth / 10);
    central.y.push_back(std::log10(central_error(eps))),
        one_sided.y.push_back(std::log10(one_sided_error(eps)));
    if (central_error(eps) < least) least = central_error(eps), best = eps;
  }
  for (const double eps : {1e-2, 1e-4, 1e-6, 1e-8, 1e-10})
    std::printf("eps %.0e: one-sided 1e%.0f, central 1e%.0f\n", eps,
                std::round(std::log10(one_sided_error(eps))), std::round(std::log10(central_error(eps))));
  std::printf("the best: between 1e-6 and 1e-5, good to 1e-10\n");
  book::claim(best > 1e-6 && best < 1e-5 && least < 1e-10,
              "the best eps is between 1e-6 and 1e-5, and good to 1e-10");
  book::figure("04-differences", svg::chart("Error of a difference", "log10 of eps", "log10 of the error",
                                            {central, one_sided}));
}

/// A softmax whose gradient somebody got wrong: the mean of g in the place of its sum with y.
struct WrongSoftmax : ct::Function<WrongSoftmax> {
  static std::vector<Tensor> forward(ct::FunctionContext& ctx, const std::vector<Tensor>& in) {
    const Tensor y = ct::softmax(in[0], -1);
    ctx.save_for_backward({y});
    return {y};
  }
  static std::vector<Tensor> backward(ct::FunctionContext& ctx, const std::vector<Tensor>& g) {
    return {ctx.saved()[0] * (g[0] - ct::mean(g[0], {-1}, true))};
  }
};

void checked() {
  book::section("gradcheck");
  const Tensor x = ct::tensor({1.0, 2.0, 3.0}, {.dtype = ct::f64});
  const auto wrong = [](const Tensor& t) { return WrongSoftmax::apply({t})[0]; };
  const auto [sum, dx] = ct::value_and_grad([&](const Tensor& t) { return ct::sum(wrong(t)); }, x);
  std::printf("wrong, g all 1:      dx = %.1f %.1f %.1f (as it ought to be)\n", dx.to_vector<double>()[0],
              dx.to_vector<double>()[1], dx.to_vector<double>()[2]);
  book::claim(ct::max(ct::abs(dx)).item() < 1e-12, "with g all 1 the wrong gradient is right");
  const ct::GradcheckResult bad = ct::gradcheck(wrong, {x});
  const ct::GradcheckResult good = ct::gradcheck([](const Tensor& t) { return ct::softmax(t, -1); }, {x});
  std::printf("wrong, g random:     %s\n", bad ? "nothing found" : bad.message.c_str());
  std::printf("library's, g random: %s\n", good ? "agrees with differences" : good.message.c_str());
  book::claim(!bad && good, "gradcheck finds the fault and takes the right one");
}

void measured() {
  book::section("measured");
  using clock = std::chrono::steady_clock;
  const std::size_t n = 2000;
  std::vector<double> x(n), g(n), dx(n, 0.0);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = std::sin(static_cast<double>(i)), g[i] = std::cos(static_cast<double>(i));
  const std::vector<double> y = softmax(x);
  const auto start = clock::now();
  const auto J = softmax_jacobian(y);
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t i = 0; i < n; ++i) dx[i] += g[j] * J[j][i];
  const auto middle = clock::now();
  // The first call finds its memory and its code cold: of ten the shortest counts.
  clock::duration formula = clock::duration::max();
  std::vector<double> short_way;
  for (int i = 0; i < 10; ++i) {
    const auto begin = clock::now();
    short_way = softmax_vjp(y, g);
    formula = std::min(formula, clock::now() - begin);
  }
  book::claim(std::abs(dx[7] - short_way[7]) < 1e-12, "both ways are the same product");
  const auto micro = [](clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); };
  std::printf(
      "softmax of %zu, going back: with the matrix %.0f us and %zu KiB, with the formula %.0f us and %zu "
      "KiB\n",
      n, micro(middle - start), n * n * 8 / 1024, micro(formula), n * 8 / 1024);
}

void chapter() {
  jacobian();
  directions();
  differences();
  checked();
  measured();
}

}  // namespace

int main() { return book::run(chapter); }
