#include <cotangent/cotangent.h>

#include <book.h>
#include <examples/common/svg.h>

#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

// Chapter 7: who holds the parameters, with which values they begin, and how they move.

namespace {

namespace nn = ct::nn;
using ct::Tensor;
using Point = std::array<double, 2>;

// ---- how parameters move ----------------------------------------------------------------------------------
// A valley, 25 times as steep across as along: L = (x^2 + 25 y^2) / 2.
Point gradient(Point p) { return {p[0], 25 * p[1]}; }

/// p <- p - lr g
void sgd(Point& p, Point g, double lr) {
  for (int i = 0; i < 2; ++i) p[i] -= lr * g[i];
}

/// b <- momentum b + g;  p <- p - lr b
void momentum(Point& p, Point g, Point& b, double lr, double share) {
  for (int i = 0; i < 2; ++i) {
    b[i] = share * b[i] + g[i];
    p[i] -= lr * b[i];
  }
}

/// m and v: running means of g and g^2. Both begin at 0, so that the first ones are too small by 1 - beta^t.
void adam(Point& p, Point g, Point& m, Point& v, int t, double lr, double beta1 = 0.9, double beta2 = 0.999,
          bool correct = true) {
  for (int i = 0; i < 2; ++i) {
    m[i] += (1 - beta1) * (g[i] - m[i]);
    v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
    const double mean = correct ? m[i] / (1 - std::pow(beta1, t)) : m[i];
    const double square = correct ? v[i] / (1 - std::pow(beta2, t)) : v[i];
    p[i] -= lr * mean / (std::sqrt(square) + 1e-8);
  }
}

constexpr Point kStart = {-4, 1};

/// The points that an optimizer of the library goes through in the same valley.
std::vector<Point> library_path(int steps,
                                const std::function<std::unique_ptr<ct::optim::Optimizer>(Tensor)>& make) {
  const Tensor p = ct::tensor({kStart[0], kStart[1]}, {.dtype = ct::f64}).set_requires_grad();
  const Tensor steepness = ct::tensor({1.0, 25.0}, {.dtype = ct::f64});
  const auto optimizer = make(p);
  std::vector<Point> path;
  for (int t = 0; t < steps; ++t) {
    optimizer->zero_grad();
    ct::sum(steepness * p * p / 2).backward();
    optimizer->step();
    path.push_back({p[0].item<double>(), p[1].item<double>()});
  }
  return path;
}

void valley() {
  book::section("valley");
  const int steps = 60;
  std::vector<Point> plain, heavy, adaptive;
  Point p = kStart, q = kStart, r = kStart, b = {}, m = {}, v = {};
  for (int t = 1; t <= steps; ++t) {
    sgd(p, gradient(p), 0.07), plain.push_back(p);
    momentum(q, gradient(q), b, 0.02, 0.8), heavy.push_back(q);
    adam(r, gradient(r), m, v, t, 0.3), adaptive.push_back(r);
  }
  using namespace ct::optim;
  std::printf("from (-4, 1)                  after 10 steps        after 60 steps\n");
  const auto compare = [&](const char* name, const std::vector<Point>& ours,
                           const std::vector<Point>& theirs) {
    for (std::size_t t = 0; t < ours.size(); ++t)
      for (int i = 0; i < 2; ++i)
        book::claim(std::abs(ours[t][i] - theirs[t][i]) < 1e-10,
                    std::string(name) + ": every step is the library's");
    std::printf("%-27s (%7.4f, %7.4f)   (%7.4f, %7.4f)\n", name, ours[9][0], ours[9][1], ours[59][0],
                ours[59][1]);
  };
  compare("SGD, lr 0.07", plain, library_path(steps, [](Tensor t) {
            return std::make_unique<SGD>(std::vector{t}, SGDOptions{.lr = 0.07});
          }));
  compare("momentum 0.8, lr 0.02", heavy, library_path(steps, [](Tensor t) {
            return std::make_unique<SGD>(std::vector{t}, SGDOptions{.lr = 0.02, .momentum = 0.8});
          }));
  compare("Adam, lr 0.3", adaptive, library_path(steps, [](Tensor t) {
            return std::make_unique<Adam>(std::vector{t}, AdamOptions{.lr = 0.3});
          }));

  std::vector<svg::Curve> curves = {
      {"SGD", "#c33", {}, {}}, {"momentum", "#36a", {}, {}}, {"Adam", "#2a7", {}, {}}};
  const std::vector<Point>* const paths[] = {&plain, &heavy, &adaptive};
  for (std::size_t k = 0; k < 3; ++k) {
    curves[k].x.push_back(kStart[0]), curves[k].y.push_back(kStart[1]);
    for (const Point& at : *paths[k]) curves[k].x.push_back(at[0]), curves[k].y.push_back(at[1]);
  }
  book::figure("07-valley", svg::chart("Sixty steps in a valley, from (-4, 1)", "along", "across", curves));
}

void first_step() {
  book::section("first step");
  for (const bool correct : {true, false}) {
    Point p = {}, m = {}, v = {};
    std::printf("%-12s", correct ? "with" : "without");
    for (int t = 1; t <= 4; ++t) {
      const Point before = p;
      adam(p, {0.02, -300}, m, v, t, 0.001, 0.9, 0.999, correct);
      std::printf("  (%.5f, %.5f)", before[0] - p[0], before[1] - p[1]);
    }
    std::printf("\n");
  }
}

// ---- with which values they begin ----------------------------------------------------------------------------
/// The deviation of the numbers that come out of 10 layers of 256, linear and relu, with weights of deviation `sigma`.
double after_layers(double sigma) {
  const ct::NoGrad guard;
  ct::manual_seed(5);
  Tensor x = ct::randn({64, 256}, {.dtype = ct::f64});
  for (int layer = 0; layer < 10; ++layer)
    x = ct::relu(ct::linear(x, sigma * ct::randn({256, 256}, {.dtype = ct::f64})));
  return x.std().item();
}

void beginnings() {
  book::section("beginnings");
  const double in = 256;
  const double small = after_layers(1 / std::sqrt(3 * in)), even = after_layers(std::sqrt(2 / in)),
               large = after_layers(0.2);
  std::printf("1 / sqrt(3 n)  %.1e\nsqrt(2 / n)    %.1e\n0.2            %.1e\n", small, even, large);
  book::claim(small < 1e-2 && even > 0.2 && even < 3 && large > 100, "only sqrt(2 / in) keeps the size");
}

// ---- who holds them --------------------------------------------------------------------------------------------
struct Classifier : nn::Module {
  nn::Linear in = add("in", nn::Linear(2, 16));
  nn::Linear out = add("out", nn::Linear(16, 3));
  Tensor forward(const Tensor& x) const { return out(ct::relu(in(x))); }
};

void module() {
  book::section("module");
  const Classifier net;
  std::int64_t count = 0;
  for (const auto& [name, tensor] : net.named_parameters()) {
    std::ostringstream shape;
    shape << tensor.shape();
    std::printf("%-12s %s\n", name.c_str(), shape.str().c_str());
    count += tensor.numel();
  }
  const Classifier same = net;
  {
    const ct::NoGrad guard;
    ct::Tensor bias = same.in.bias();
    bias.fill_(7);
  }
  std::printf("%lld numbers; a copy of the module changes the bias of both: %.0f\n",
              static_cast<long long>(count), net.in.bias()->select(0, 0).item());
}

void measured() {
  book::section("measured");
  using clock = std::chrono::steady_clock;
  nn::Sequential net(nn::Linear(784, 256), nn::ReLU(), nn::Linear(256, 10));
  const Tensor x = ct::randn({64, 784}), t = ct::randint(0, 10, {64});
  ct::optim::Adam adam(net.parameters(), {.lr = 1e-3});
  double forward = 1e9, back = 1e9, step = 1e9;
  for (int i = 0; i < 50; ++i) {
    adam.zero_grad();
    const auto start = clock::now();
    const Tensor loss = ct::cross_entropy(net.forward(x), t);
    const auto lost = clock::now();
    loss.backward();
    const auto known = clock::now();
    adam.step();
    const auto end = clock::now();
    const auto micro = [](clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); };
    forward = std::min(forward, micro(lost - start)), back = std::min(back, micro(known - lost));
    step = std::min(step, micro(end - known));
  }
  std::printf("784-256-10, 64 rows: forward %.0f us, backward %.0f us, Adam's step %.0f us\n", forward, back,
              step);
}

void chapter() {
  valley();
  first_step();
  beginnings();
  module();
  measured();
}

}  // namespace

int main() { return book::run(chapter); }
