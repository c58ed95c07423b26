#include <cotangent/cotangent.h>

#include <book.h>
#include <examples/common/svg.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

// Chapter 17: 16-bit numbers: what is lost in them, where, and by what means it is kept.

namespace {

using ct::DType;
using ct::Tensor;

/// x as that dtype holds it.
double rounded(double x, DType dtype) { return ct::tensor({x}, {.dtype = ct::f64}).to(dtype).item(); }

const DType kTypes[] = {ct::f32, ct::bf16, ct::f16};

void formats() {
  book::section("formats");
  std::printf("        spacing at 1   smallest normal   smallest    largest\n");
  for (const DType dtype : kTypes) {
    // Powers of two, down and up from 1, as long as the dtype has them.
    int spacing = 0, tiny = 0, top = 0, normal = 0;
    while (rounded(1 + std::ldexp(1, spacing - 1), dtype) != 1) --spacing;
    while (rounded(std::ldexp(1, tiny - 1), dtype) != 0) --tiny;
    while (std::isfinite(rounded(std::ldexp(1, top + 1), dtype))) ++top;
    // A number is normal where it has all its digits.
    while (rounded(std::ldexp(1 + std::ldexp(1, spacing), normal - 1), dtype) != std::ldexp(1, normal - 1))
      --normal;
    const double largest = std::ldexp(2 - std::ldexp(1, spacing), top);
    std::printf("%-5s %14.1e %17.1e %10.1e %10.1e\n", std::string(ct::name(dtype)).c_str(),
                std::ldexp(1, spacing), std::ldexp(1, normal), std::ldexp(1, tiny), largest);
    book::claim(rounded(largest, dtype) == largest, "the largest is one of its numbers");
  }
}

/// w after so many steps of -0.001, as an optimizer makes them.
double walked(DType dtype, bool master, int steps) {
  Tensor w = ct::ones({1}, {.dtype = dtype});
  w.set_requires_grad();
  ct::optim::SGD sgd({w}, {.lr = 0.001, .master_weights = master});
  for (int i = 0; i < steps; ++i) {
    sgd.zero_grad();
    w.sum().backward();
    sgd.step();
  }
  return w.detach().item();
}

void lost_steps() {
  book::section("lost steps");
  std::printf("500 steps of 0.001 down from 1\n");
  for (const DType dtype : kTypes) {
    std::printf("%-5s %-18s %7.4f\n", std::string(ct::name(dtype)).c_str(),
                dtype == ct::f32 ? "" : "by itself", walked(dtype, false, 500));
    if (dtype != ct::f32)
      std::printf("%-5s %-18s %7.4f\n", std::string(ct::name(dtype)).c_str(), "with an f32 master",
                  walked(dtype, true, 500));
  }
  book::claim(walked(ct::bf16, false, 500) == 1, "in bf16 not one of 500 steps is made");
  book::claim(std::abs(walked(ct::bf16, true, 500) - 0.5) < 2e-3, "with a master all are");
}

/// Gradients as networks have them: sizes over many powers of two, most of them small.
std::vector<double> gradients() {
  std::mt19937 draw(1);
  std::vector<double> g;
  for (int i = 0; i < 20000; ++i) {
    int exponent = -34;  // twelve draws of 0 to 3 are nearly a normal distribution around 18
    for (int k = 0; k < 12; ++k) exponent += static_cast<int>(draw() % 4);
    g.push_back(std::ldexp(1 + static_cast<double>(draw() % 1024) / 1024, exponent - 4));
  }
  return g;
}

void scales() {
  book::section("scales");
  const std::vector<double> g = gradients();
  std::printf(
      "20000 gradients in f16, times S\n       S   become 0   have lost digits   infinite, of 20000\n");
  int best = 0;
  std::size_t least = g.size();
  for (int power = 0; power <= 32; power += 4) {
    std::vector<double> scaled;
    for (const double x : g) scaled.push_back(std::ldexp(x, power));
    const std::vector<double> held = ct::from_vector(scaled).to(ct::f16).to_vector<double>();
    std::size_t zero = 0, poor = 0, infinite = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (held[i] == 0) ++zero;
      if (held[i] != 0 && std::abs(held[i]) < 6.1e-5) ++poor;
      if (std::isinf(held[i])) ++infinite;
    }
    std::printf("    2^%-2d %9.1f%% %17.1f%% %19zu\n", power, 100.0 * static_cast<double>(zero) / 20000,
                100.0 * static_cast<double>(poor) / 20000, infinite);
    if (infinite == 0 && zero + poor < least) least = zero + poor, best = power;
  }
  std::printf("the best of them without an infinity: 2^%d\n", best);
  svg::Curve found{"gradients", "#888", {}, {}}, scaled{"times 2^16", "#36a", {}, {}},
      range{"f16, all digits", "#c33", {}, {}};
  std::vector<double> count(60);
  for (const double x : g) ++count[static_cast<std::size_t>(40 + std::ilogb(x))];
  for (int e = -40; e < 18; ++e) {
    const auto at = [&](int exponent) {
      return exponent < -40 || exponent > 19 ? 0 : count[static_cast<std::size_t>(40 + exponent)];
    };
    found.x.push_back(e), found.y.push_back(at(e));
    scaled.x.push_back(e), scaled.y.push_back(at(e - 16));
    range.x.push_back(e), range.y.push_back(e >= -14 && e <= 15 ? 400 : 0);
  }
  book::figure("17-scales",
               svg::chart("Sizes of gradients", "log2 of the size", "how many", {found, scaled, range}));
}

/// The scale over a training in which some gradients are infinite.
void scaler() {
  book::section("scaler");
  Tensor w = ct::ones({1});
  w.set_requires_grad();
  ct::optim::SGD sgd({w}, {.lr = 1});
  ct::optim::GradScaler scaler({.init_scale = 1024, .growth_interval = 4});
  std::printf("step    scale   w\n");
  for (int i = 0; i < 14; ++i) {
    const double scale = scaler.get_scale();
    sgd.zero_grad();
    scaler.scale(w.sum() * 0.125).backward();
    const bool overflow = scale > 3000 || i == 9;  // what f16 would have made of it
    if (overflow) w.grad().fill_(INFINITY);
    scaler.step(sgd);
    scaler.update();
    std::printf("%4d %8.0f %7.3f%s\n", i, scale, w.detach().item(), overflow ? "   infinite: no step" : "");
  }
  book::claim(w.detach().item() == 1 - 0.125 * 12, "twelve of fourteen steps were made, each of 0.125");
}

/// A regression whose gradients are small: a mean over 4096 rows, with a weight of 1e-5, as one of several losses may have. The
/// loss after 200 steps over that before the first.
double trained(DType dtype, bool scaled) {
  ct::manual_seed(3);
  const Tensor x = ct::randn({4096, 8});
  const Tensor target = 0.01 * ct::tanh(ct::sum(x, {1}, true));
  ct::nn::Sequential net(ct::nn::Linear(8, 32), ct::nn::Tanh(), ct::nn::Linear(32, 1));
  ct::optim::Adam adam(net.parameters(), {.lr = 0.003, .eps = 1e-12});
  ct::optim::GradScaler scaler({.growth_interval = 20, .enabled = scaled});
  double first = 0, last = 0;
  for (int i = 0; i < 200; ++i) {
    Tensor loss;
    {
      ct::Autocast guard(dtype);
      loss = ct::mse_loss(net(x).to(ct::f32), target) * 1e-5;
    }
    adam.zero_grad();
    scaler.scale(loss).backward();
    scaler.step(adam);
    scaler.update();
    (i == 0 ? first : last) = loss.item();
  }
  return last / first;
}

void training() {
  book::section("training");
  const double half = trained(ct::f16, false), scaled = trained(ct::f16, true),
               brain = trained(ct::bf16, false);
  std::printf("loss after 200 steps, of that before the first\n");
  std::printf("f16           %.3f\nf16, scaled   %.3f\nbf16          %.3f\n", half, scaled, brain);
  book::claim(half > 0.9 && scaled < 0.01 && brain < 0.01, "f16 learns with a scale, and not without");
}

void autocast() {
  book::section("autocast");
  const Tensor x = ct::randn({4, 8}), w = ct::randn({3, 8});
  const ct::Autocast guard(ct::bf16);
  const Tensor h = ct::linear(x, w);
  const auto row = [](const char* call, const Tensor& t, const char* why) {
    std::printf("%-18s %-5s %s\n", call, std::string(ct::name(t.dtype())).c_str(), why);
  };
  row("h = linear(x, w)", h, "k products, added in f32; rounded once");
  row("relu(h)", ct::relu(h), "no rounding of its own: as it comes");
  row("h + x[:, :3]", h + x.narrow(1, 0, 3), "the wider of both");
  row("exp(h)", ct::exp(h), "an error of x becomes a relative one of y");
  row("softmax(h, 1)", ct::softmax(h, 1), "has exp and a sum");
  row("mean(h)", ct::mean(h), "a long sum");
}

void conditions() {
  book::section("conditions");
  std::printf("      x   u x    exp(x), x rounded to bf16, is off by\n");
  for (const double x : {1.003, 10.03, 80.2}) {
    const double off = std::abs(std::exp(rounded(x, ct::bf16)) / std::exp(x) - 1);
    std::printf("%7.3f %5.3f %18.3f\n", x, x / 256, off);
    book::claim(off < 1.2 * x / 256, "the relative error is u x at most");
  }
}

/// x in e4m3: four binary digits, steps of 2^-9 below 2^-6, and 448 at most.
double e4m3(double x) {
  const double spacing = std::ldexp(1, std::max(x == 0 ? -6 : std::ilogb(x), -6) - 3);
  return std::clamp(std::nearbyint(x / spacing) * spacing, -448.0, 448.0);
}

/// The error of y = x w^T where w has 8 bits, of the rows of w without a large weight.
void eight_bits() {
  book::section("eight bits");
  ct::manual_seed(2);
  const Tensor x = ct::randn({128, 512}, {.dtype = ct::f64}), w = ct::randn({64, 512}, {.dtype = ct::f64});
  const auto whole = [](const Tensor& of, const Tensor& largest) {
    const Tensor scale = largest / 127;
    return ct::round(of / scale) * scale;
  };
  const auto floating = [](const Tensor& of, double largest) {
    std::vector<double> numbers = (of * (448 / largest)).flatten().to_vector<double>();
    for (double& v : numbers) v = e4m3(v);
    return ct::from_vector(numbers).view(of.shape()) * (largest / 448);
  };
  const auto off = [&](const Tensor& exact, const Tensor& stored) {
    const auto rest = [](const Tensor& all) { return all.narrow(0, 1, all.size(0) - 1); };
    const Tensor y = ct::matmul(x, rest(exact).t()), d = ct::matmul(x, rest(stored).t()) - y;
    return 100 * std::sqrt(ct::mean(d * d).item<double>() / ct::mean(y * y).item<double>());
  };
  Tensor one_large = w.clone();
  one_large[0][0].fill_(100);
  double found[4][2];
  for (const int large : {0, 1}) {
    const Tensor& of = large ? one_large : w;
    const Tensor size = ct::abs(of), all = ct::amax(size), rows = ct::amax(size, {1}, true);
    found[0][large] = off(of, of.to(ct::bf16).to(ct::f64));
    found[1][large] = off(of, whole(of, all));
    found[2][large] = off(of, whole(of, rows));
    found[3][large] = off(of, floating(of, all.item<double>()));
  }
  const char* const names[] = {"bf16", "whole numbers, one scale", "whole numbers, a scale a row",
                               "e4m3, one scale"};
  std::printf("error of y, of its size          all weights alike   one weight is 100\n");
  for (int i = 0; i < 4; ++i) std::printf("%-30s %15.1f %% %17.1f %%\n", names[i], found[i][0], found[i][1]);
  book::claim(found[1][1] > 10 && found[2][1] < 1, "a large weight spoils the rows that share its scale");
}

void chapter() {
  formats();
  lost_steps();
  scales();
  scaler();
  training();
  autocast();
  conditions();
  eight_bits();
}

}  // namespace

int main() { return book::run(chapter); }
