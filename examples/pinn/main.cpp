#include <cotangent/cotangent.h>

#include <cstdio>
#include <numbers>

#include "examples/common/small_program.h"

// A network that solves a differential equation: u''(x) = f(x) between 0 and 1, u(0) = u(1) = 0. Nobody tells it a value of
// u. It is trained until its own second derivative is f, so each step differentiates through derivatives: the loss is
// made of gradients of gradients (Raissi, Perdikaris and Karniadakis 2019: a physics-informed neural network).

namespace nn = ct::nn;
using ct::Tensor;

namespace {

constexpr double kPi = std::numbers::pi;

struct Settings {
  std::int64_t steps = 10000, points = 64, hidden = 32;
  double lr = 5e-3;
};

// f, and the u that it belongs to, which serves to judge the result alone.
Tensor source(const Tensor& x) { return -kPi * kPi * (ct::sin(kPi * x) + 4 * ct::sin(4 * kPi * x)); }
Tensor solution(const Tensor& x) { return ct::sin(kPi * x) + ct::sin(4 * kPi * x) / 4; }

struct Net : nn::Module {
  explicit Net(std::int64_t hidden)
      : layers(add("layers", nn::Sequential(nn::Linear(1, hidden, {.dtype = ct::f64}), nn::Tanh(),
                                            nn::Linear(hidden, hidden, {.dtype = ct::f64}), nn::Tanh(),
                                            nn::Linear(hidden, 1, {.dtype = ct::f64})))) {}
  // The factor x (1 - x) makes u(0) = u(1) = 0 true whatever the weights are.
  Tensor forward(const Tensor& x) const { return x * (1 - x) * layers(2 * x - 1); }
  nn::Sequential layers;
};

// dy/dx at each point, itself on the tape. Point i of y depends on point i of x alone, so the gradient of the sum holds
// all of them.
Tensor derivative(const Tensor& y, const Tensor& x) {
  return ct::grad({ct::sum(y)}, {x}, {}, {.create_graph = true})[0];
}

double largest_error(const Net& net) {
  const ct::NoGrad guard;
  const Tensor x = ct::linspace(0, 1, 1001, {.dtype = ct::f64}).view(-1, 1);
  return ct::max(ct::abs(net.forward(x) - solution(x))).item();
}

void solve(const Settings& s) {
  ct::manual_seed(1);
  const Net net(s.hidden);
  ct::optim::Adam adam(net.parameters(), {.lr = s.lr});
  // Slower towards the end: lr (1 + cos(pi step / steps)) / 2.
  ct::optim::CosineAnnealingLR schedule(adam, {.steps = s.steps});
  Tensor x = ct::linspace(0, 1, s.points, {.dtype = ct::f64}).view(-1, 1);
  x.set_requires_grad();
  const Tensor f = source(x.detach());

  for (std::int64_t step = 1; step <= s.steps; ++step) {
    profile_step();
    adam.zero_grad();
    const Tensor u = net.forward(x);
    const Tensor du = derivative(u, x), ddu = derivative(du, x);
    const Tensor loss = ct::mse_loss(ddu, f);
    loss.backward();
    adam.step();
    schedule.step();
    if (step % std::max<std::int64_t>(1, s.steps / 10) == 0)
      std::printf("step %5lld  (u'' - f)^2 %9.2e  largest error of u %.2e%s\n", static_cast<long long>(step),
                  loss.item(), largest_error(net), limit_share(ct::cpu).c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  return small_program(
      "pinn", "Solves u'' = f with a network whose loss is made of its own second derivatives.", argc, argv,
      [&](flags::Flags flags) {
        flags.whole("--steps", s.steps, "of Adam");
        flags.whole("--points", s.points, "at which the equation is to hold", 2);
        flags.whole("--hidden", s.hidden, "units of each of two layers");
        flags.positive("--lr", s.lr, "learning rate at the start");
        add_profile(flags);
      },
      [&] { solve(s); });
}
