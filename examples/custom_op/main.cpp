#include <cotangent/cotangent.h>

#include <cstdint>
#include <cstdio>

#include "examples/common/small_program.h"

// A network whose activation is an op of one's own (bump/op.cpp), beside the same network with tanh, on a wave.

namespace nn = ct::nn;
using ct::Tensor;

Tensor bump(const Tensor& x, double a);  // bump/op.cpp

struct Settings {
  std::int64_t steps = 500, hidden = 32;
  double lr = 0.01;
};

struct Net : nn::Module {
  nn::Linear in, out;
  bool own;
  Net(std::int64_t hidden, bool with_bump)
      : in(add("in", nn::Linear(1, hidden))), out(add("out", nn::Linear(hidden, 1))), own(with_bump) {}
  Tensor forward(const Tensor& x) const {
    const Tensor h = in(x);
    return out(own ? bump(h, 20) : ct::tanh(h));
  }
};

void train(const Settings& s) {
  const ct::Device device = ct::best_device();
  const Tensor x = ct::linspace(-1, 1, 256, {.device = device}).view(-1, 1);
  const Tensor y = ct::sin(12 * x);
  for (const bool own : {false, true}) {
    ct::manual_seed(1);
    Net net(s.hidden, own);
    net.to(device);
    ct::optim::Adam adam(net.parameters(), {.lr = s.lr});
    Tensor loss;
    for (std::int64_t step = 0; step < s.steps; ++step) {
      profile_step();
      adam.zero_grad();
      loss = ct::mse_loss(net.forward(x), y);
      loss.backward();
      adam.step();
    }
    std::printf("%s loss %.5f\n", own ? "bump" : "tanh", loss.item());
  }
}

int main(int argc, char** argv) {
  Settings s;
  return small_program(
      "custom_op", "Trains a network with an op of one's own, bump, beside the same network with tanh.", argc,
      argv,
      [&](flags::Flags flags) {
        flags.whole("--steps", s.steps, "of Adam");
        flags.whole("--hidden", s.hidden, "units");
        flags.positive("--lr", s.lr, "learning rate");
        add_profile(flags);
      },
      [&] { train(s); });
}
