#include <cmath>
#include <numbers>
#include <vector>

#include <cotangent/cotangent.h>

#include "tests/catch.h"

// Two trainings whose loss holds a gradient.

using namespace ct;

namespace {

Tensor gradient_of(const Tensor& y, const Tensor& x) {
  const Tensor total = sum(y);
  return grad({total}, {x}, {}, {.create_graph = true})[0];
}

}  // namespace

// u'' = f on [0, 1] with u(0) = u(1) = 0 and f = -pi^2 sin(pi x), so that u = sin(pi x).
TEST_CASE("a physics-informed network solves u'' = f", "[second_order][training]") {
  manual_seed(3);
  nn::Sequential net(nn::Linear(1, 16), nn::Tanh(), nn::Linear(16, 16), nn::Tanh(), nn::Linear(16, 1));
  net.to(f64);
  const auto u = [&](const Tensor& x) { return x * (1 - x) * net.forward(x); };  // 0 at both ends
  Tensor x = linspace(0, 1, 33, {.dtype = f64}).view({33, 1});
  x.set_requires_grad();
  constexpr double pi = std::numbers::pi;
  const Tensor f = (sin(x.detach() * pi) * (-pi * pi));
  optim::Adam adam(net.parameters(), {.lr = 1e-2});
  constexpr int kSteps = 600;
  for (int step = 0; step < kSteps; ++step) {
    adam.set_lr(1e-2 * std::pow(1e-2, step / double(kSteps)));
    adam.zero_grad();
    const Tensor curvature = gradient_of(gradient_of(u(x), x), x);
    mse_loss(curvature, f).backward();
    adam.step();
  }
  const NoGrad guard;
  const Tensor test = linspace(0, 1, 101, {.dtype = f64}).view({101, 1});
  const double error = max(abs(u(test) - sin(test * pi))).item();
  CHECK(error < 1e-3);
}

// The critic of a WGAN-GP (Gulrajani et al. 2017): E[D(fake)] - E[D(real)] + 10 E[(|dD/dx| - 1)^2].
TEST_CASE("a gradient penalty holds a critic's slope at 1", "[second_order][training]") {
  manual_seed(5);
  nn::Sequential critic(nn::Linear(2, 32), nn::LeakyReLU(0.2), nn::Linear(32, 32), nn::LeakyReLU(0.2),
                        nn::Linear(32, 1));
  optim::Adam adam(critic.parameters(), {.lr = 2e-3, .beta1 = 0.5, .beta2 = 0.9});
  const auto slope_at = [&](const Tensor& where) {
    Tensor x = where.detach();
    x.set_requires_grad();
    return norm(gradient_of(critic.forward(x), x), 2, {1});
  };
  const Tensor shift = from_vector<float>({3, 0}, {2});
  double distance = 0, slope = 0;
  for (int step = 0; step < 200; ++step) {
    const Tensor real = randn({64, 2}) * 0.1 + shift, fake = randn({64, 2}) * 0.1, mix = rand({64, 1});
    const Tensor slopes = slope_at(mix * real + (1 - mix) * fake);
    const Tensor gap = mean(critic.forward(real)) - mean(critic.forward(fake));
    adam.zero_grad();
    (10 * mean(square(slopes - 1)) - gap).backward();
    adam.step();
    distance = gap.item();
    slope = mean(slopes).item();
  }
  // With slope 1 between them the gap is the distance of the two clouds, 3; without the penalty it grows without
  // bound, without the gap it stays near 0.
  CHECK(slope == Approx(1).margin(0.15));
  CHECK(distance == Approx(3).margin(0.6));
}
