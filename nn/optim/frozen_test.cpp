#include <cotangent/nn/linear.h>
#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/reduce/reduce.h>

#include "tests/catch.h"
#include "tests/optim_testing.h"

using namespace ct;
using ct::testing::bytes_of;
using ct::testing::message_of;

TEST_CASE("Optimizers pass over frozen parameters, until they are thawed", "[optim]") {
  struct Net : nn::Module {
    nn::Linear body = add("body", nn::Linear(3, 3));
    nn::Linear head = add("head", nn::Linear(3, 2));
    Tensor forward(const Tensor& x) const { return head(body(x)); }
  };
  const auto run = [](auto make) {
    Net net;
    net.body.requires_grad(false);
    auto optimizer = make(net.parameters());
    const std::string body = bytes_of(net.body.weight()), head = bytes_of(net.head.weight());
    const auto step = [&] {
      optimizer->zero_grad();
      sum(net.forward(ones({1, 3}))).backward();
      optimizer->step();
    };
    step();
    CHECK(bytes_of(net.body.weight()) == body);
    CHECK(bytes_of(net.head.weight()) != head);
    CHECK(optimizer->state_dict().template value<std::int64_t>("0.0.step") == 0);
    CHECK(optimizer->state_dict().template value<std::int64_t>("0.2.step") == 1);
    net.body.requires_grad();
    step();
    CHECK(bytes_of(net.body.weight()) != body);
    const StateDict state = optimizer->state_dict().deep_copy();
    optimizer->load_state_dict(state);
    CHECK(optimizer->state_dict().template value<std::int64_t>("0.0.step") == 1);
  };
  run([](std::vector<Tensor> p) {
    return std::make_unique<optim::SGD>(p, optim::SGDOptions{.momentum = 0.9});
  });
  run([](std::vector<Tensor> p) { return std::make_unique<optim::Adam>(p); });
  run([](std::vector<Tensor> p) { return std::make_unique<optim::AdamW>(p); });
}

TEST_CASE("Optimizers: what can't be a parameter", "[optim]") {
  const Tensor leaf = ones({2}, {.requires_grad = true});
  CHECK_THROWS_AS(optim::SGD({leaf, ones({2}, {.dtype = i64})}), DTypeError);
  CHECK_THROWS_AS(optim::SGD({sum(leaf)}), AutogradError);
  CHECK_THROWS_AS(optim::SGD({leaf, Tensor()}), ValueError);
  nn::Linear frozen(2, 2);
  frozen.requires_grad(false);
  ct::testing::check_mentions(
      message_of([&] { optim::AdamW adamw(optim::decay_groups(frozen, optim::AdamWOptions{})); }),
      {"[AdamW]", "no groups", "; pass"});
}
