#include <cotangent/cotangent.h>

#include <book.h>
#include <examples/common/svg.h>

#include <iostream>

// Chapter 0: a first network, with what it guesses before and after.

namespace {

namespace nn = ct::nn;

void exclusive_or() {
  book::section("exclusive or");
  ct::manual_seed(1);
  const ct::Tensor x = ct::tensor({{0.f, 0.f}, {0.f, 1.f}, {1.f, 0.f}, {1.f, 1.f}});
  const ct::Tensor t = ct::tensor({{0.f}, {1.f}, {1.f}, {0.f}});

  // In braces, since C++ makes these from left to right then: the same random values by every compiler.
  nn::Sequential model{nn::Linear(2, 16), nn::Tanh(), nn::Linear(16, 1)};
  ct::optim::Adam adam(model.parameters(), {.lr = 0.05});
  svg::Curve curve{"loss", "#36a", {}, {}};
  for (int step = 0; step <= 300; ++step) {
    adam.zero_grad();
    const ct::Tensor loss = ct::mse_loss(model.forward(x), t);
    loss.backward();
    adam.step();
    curve.x.push_back(step), curve.y.push_back(loss.item());
    if (step == 0) std::printf("before: loss %.1f\n", loss.item());
  }
  book::claim(curve.y.back() < 0.001, "the loss after 300 steps is below 0.001");
  std::printf("after:  loss below 0.001\n");
  std::cout << (model.forward(x) > 0.5) << std::endl;
  book::figure("00-loss", svg::chart("Learning the exclusive or", "step", "loss", {curve}));
}

void chapter() { exclusive_or(); }

}  // namespace

int main() { return book::run(chapter); }
