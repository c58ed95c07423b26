#include <cmath>
#include <functional>
#include <memory>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"
#include "tests/optim_testing.h"

// Parameters of f16 and bf16 with f32 masters.

using namespace ct;
using namespace ct::optim;
using namespace ct::testing;

namespace {

using Make = std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>)>;

std::vector<std::pair<const char*, Make>> kinds() {
  return {
      {"SGD", [](auto p) { return std::make_unique<SGD>(p, SGDOptions{.lr = 0.01}); }},
      {"momentum", [](auto p) { return std::make_unique<SGD>(p, SGDOptions{.lr = 0.01, .momentum = 0.9}); }},
      {"Adam", [](auto p) { return std::make_unique<Adam>(p, AdamOptions{.lr = 1e-3, .amsgrad = true}); }},
      {"AdamW", [](auto p) { return std::make_unique<AdamW>(p, AdamWOptions{.lr = 1e-3}); }},
      {"RMSprop", [](auto p) { return std::make_unique<RMSprop>(p, RMSpropOptions{.momentum = 0.9}); }},
      {"Lion", [](auto p) { return std::make_unique<Lion>(p, LionOptions{.lr = 1e-3}); }}};
}

}  // namespace

TEST_CASE("16-bit parameters with masters: f32 training seen through rounded weights", "[optim][master]") {
  const DType dtype = GENERATE(bf16, f16);
  for (const auto& [name, make] : kinds()) {
    INFO(name);
    std::vector<Tensor> low = optim_params(dtype), full;
    for (const Tensor& p : low) full.push_back(p.detach().to(f32).set_requires_grad());
    const auto a = make(low), b = make(full);
    for (int t = 0; t < 100; ++t) {
      optim_set_gradients(low, t);
      // The gradient depends on the weights that the forward pass sees: the rounded ones.
      for (std::size_t i = 0; i < low.size(); ++i) {
        if (!low[i].grad().defined()) {
          full[i].set_grad({});
          continue;
        }
        const NoGrad no_grad;
        const Tensor rounded = full[i].detach().to(dtype);
        full[i].set_grad((low[i].grad() + rounded).to(f32));
        low[i].set_grad(low[i].grad() + low[i].detach());
      }
      a->step();
      b->step();
    }
    const StateDict state = a->state_dict();
    for (std::size_t i = 0; i < low.size(); ++i) {
      CHECK(low[i].dtype() == dtype);
      CHECK(low[i].to_vector<float>() == full[i].detach().to(dtype).to_vector<float>());
      CHECK(state.at("0." + std::to_string(i) + ".master").to_vector<float>() == full[i].to_vector<float>());
    }
  }
}

TEST_CASE("small steps are lost without a master and kept with one", "[optim][master]") {
  for (const bool master : {true, false}) {
    Tensor p = parameter({1}, bf16);
    SGD sgd({p}, {.lr = 1, .master_weights = master});
    for (int i = 0; i < 16; ++i) {
      with_grad(p, {std::ldexp(1, -10)});  // a quarter of the distance to the next bf16 below 1
      sgd.step();
    }
    CHECK(p.item() == (master ? 1 - std::ldexp(1, -6) : 1));
    CHECK(sgd.state_dict().contains("0.0.master") == master);
  }
}

TEST_CASE("a master follows its parameter where somebody else changes it", "[optim][master]") {
  Tensor p = parameter({1, 1, 1}, bf16);
  SGD sgd({p}, {.lr = 1});
  const auto step = [&] {
    with_grad(p, {std::ldexp(1, -10), std::ldexp(1, -10), std::ldexp(1, -10)});
    sgd.step();
  };
  step();
  {
    const NoGrad no_grad;
    p.slice(0, 1, 2).fill_(4);
  }
  step();
  const std::vector<float> master = sgd.state_dict().at("0.0.master").to_vector<float>();
  const float small = std::ldexp(1.0f, -10);
  CHECK(master == std::vector<float>{1 - 2 * small, 4 - small, 1 - 2 * small});
}

TEST_CASE("masters are saved and resumed to the bit, in either order", "[optim][master]") {
  const bool optimizer_first = GENERATE(true, false);
  std::vector<Tensor> params = optim_params(bf16), resumed = optim_params(bf16);
  AdamW a(params, {.lr = 1e-3}), b(resumed, {.lr = 1e-3});
  for (int t = 0; t < 10; ++t) {
    optim_set_gradients(params, t);
    a.step();
  }
  const StateDict state = a.state_dict().deep_copy();
  const auto load_params = [&] {
    const NoGrad no_grad;
    for (std::size_t i = 0; i < params.size(); ++i) resumed[i].copy_(params[i].detach());
  };
  optim_set_gradients(resumed, 0);
  b.step();  // it has masters of its own
  if (!optimizer_first) load_params();
  b.load_state_dict(state);
  if (optimizer_first) load_params();
  for (int t = 10; t < 30; ++t) {
    optim_set_gradients(params, t);
    optim_set_gradients(resumed, t);
    a.step();
    b.step();
  }
  CHECK(all_bytes(params) == all_bytes(resumed));
  StateDict wrong = state;
  wrong.set("0.0.master", zeros({2}));
  CHECK_THROWS_AS(b.load_state_dict(wrong), ValueError);
}

TEST_CASE("masters on CUDA are those of the CPU", "[optim][master][cuda]") {
  const DType dtype = GENERATE(bf16, f16);
  for (const auto& [name, make] : kinds()) {
    INFO(name);
    std::vector<Tensor> host = optim_params(dtype), device = optim_params(dtype, cuda(0));
    const auto a = make(host), b = make(device);
    for (int t = 0; t < 50; ++t) {
      optim_set_gradients(host, t);
      optim_set_gradients(device, t);
      a->step();
      b->step();
    }
    const StateDict want = a->state_dict(), got = b->state_dict();
    for (std::size_t i = 0; i < host.size(); ++i) {
      const std::string key = "0." + std::to_string(i) + ".master";
      const std::vector<float> x = want.at(key).to_vector<float>(), y = got.at(key).to_vector<float>();
      for (std::size_t k = 0; k < x.size(); ++k) CHECK(y[k] == Approx(x[k]).epsilon(1e-5).margin(1e-7));
      CHECK(device[i].to_vector<float>() == got.at(key).to(dtype).to_vector<float>());
    }
  }
}

TEST_CASE("a master follows a parameter whose memory has been replaced", "[optim][master]") {
  Tensor p = full({8}, 1.0, {.dtype = bf16, .requires_grad = true});
  SGD sgd({p}, {.lr = 0.25});
  const auto step = [&] {
    p.set_grad(ones({8}, {.dtype = bf16}));
    sgd.step();
  };
  step();
  CHECK(p.to_vector<double>() == std::vector<double>(8, 0.75));
  // The new memory's record may lie where the old one's lay, and may have been changed as often.
  const std::uint32_t version = p.impl()->storage->version();
  p.impl()->storage.reset();
  Tensor other = full({8}, 5.0, {.dtype = bf16});
  while (other.impl()->storage->version() < version) other.impl()->storage->bump_version();
  p.impl()->storage = other.impl()->storage;
  step();
  CHECK(p.to_vector<double>() == std::vector<double>(8, 4.75));
}
