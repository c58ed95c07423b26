#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops/creation/creation.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"
#include "tests/optim_testing.h"

// The GPU against the CPU, which the other tests hold against PyTorch.

using namespace ct;
using namespace ct::optim;
using ct::testing::bytes_of;
using ct::testing::optim_gradient;
using ct::testing::optim_initial;
using ct::testing::optim_params;
using ct::testing::optim_set_gradients;

namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

// Half a unit in the last place of numbers around 1, and what two ways of rounding may differ by.
double tolerance(DType dtype) {
  return dtype == f64 ? 1e-14 : dtype == f32 ? 1e-6 : dtype == f16 ? 0x1p-10 : 0x1p-7;
}

double worst(const Tensor& got, const Tensor& want) {
  const std::vector<double> a = got.detach().to_vector<double>(), b = want.detach().to_vector<double>();
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double error = std::abs(a[i] - b[i]) / std::max(std::abs(b[i]), 1.0);
    if (std::isnan(error)) return error;
    most = std::max(most, error);
  }
  return most;
}

// A tensor with these values whose address is one element off.
Tensor shifted(const Tensor& t) {
  Tensor buffer = zeros({t.numel() + 1}, {.dtype = t.dtype(), .device = t.device()});
  Tensor view = buffer.narrow(0, 1, t.numel());
  view.copy_(t.detach().reshape({t.numel()}));
  return view.view(t.shape());
}

using Make = std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>&)>;
const std::vector<Make> makers = {
    [](const auto& p) { return std::make_unique<SGD>(p, SGDOptions{.lr = 0.05, .weight_decay = 0.1}); },
    [](const auto& p) {
      return std::make_unique<SGD>(p, SGDOptions{.lr = 0.05, .momentum = 0.8, .nesterov = true});
    },
    [](const auto& p) { return std::make_unique<Adam>(p, AdamOptions{.lr = 0.02, .weight_decay = 0.1}); },
    [](const auto& p) { return std::make_unique<AdamW>(p, AdamWOptions{.lr = 0.02, .amsgrad = true}); },
    [](const auto& p) { return std::make_unique<RMSprop>(p, RMSpropOptions{.lr = 0.02}); },
    [](const auto& p) {
      return std::make_unique<RMSprop>(p, RMSpropOptions{.lr = 0.02, .momentum = 0.8, .centered = true});
    },
    [](const auto& p) {
      return std::make_unique<Adagrad>(p, AdagradOptions{.lr = 0.02, .weight_decay = 0.1});
    },
    [](const auto& p) { return std::make_unique<Lion>(p, LionOptions{.lr = 0.02, .weight_decay = 0.1}); },
};

void compare(const std::vector<std::int64_t>& sizes, DType dtype, bool misaligned) {
  for (std::size_t kind = 0; kind < makers.size(); ++kind) {
    std::vector<Tensor> here, there;
    for (const std::int64_t n : sizes) {
      here.push_back(optim_initial({n}, static_cast<std::int64_t>(here.size()), dtype));
      Tensor p = here.back().detach().to(cuda(0));
      there.push_back((misaligned ? shifted(p).detach() : p).set_requires_grad());
    }
    const auto a = makers[kind](here), b = makers[kind](there);
    for (std::int64_t t = 1; t <= 3; ++t) {
      for (std::size_t k = 0; k < sizes.size(); ++k) {
        const Tensor grad = optim_gradient({sizes[k]}, static_cast<std::int64_t>(k), t, dtype);
        here[k].set_grad(grad);
        const Tensor moved = grad.to(cuda(0));
        there[k].set_grad(misaligned ? shifted(moved) : moved);
      }
      a->step();
      b->step();
    }
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      INFO(dtype << ", optimizer " << kind << ", tensor " << k << " of " << sizes[k]);
      CHECK(worst(there[k], here[k]) <= tolerance(dtype));
    }
  }
}

}  // namespace

TEST_CASE("a step on a GPU is the step of the CPU", "[optim][cuda]") {
  for (const DType dtype : {f32, f64, f16, bf16}) {
    compare({1, 3, 1023, 100000, 0, 4, 1024, 1025, 7}, dtype, false);
    compare({1, 3, 1023, 4097}, dtype, true);
    compare({0}, dtype, false);
  }
}

TEST_CASE("small gradients after large ones on a GPU", "[optim][cuda]") {
  ct::testing::check_small_after_large(cuda(0));
}

TEST_CASE("tables of any number of tensors", "[optim][cuda]") {
  for (const std::int64_t count : {40, 41, 320, 321, 700}) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t k = 0; k < count; ++k) sizes.push_back(k % 7 == 3 ? 0 : 1 + k * 37 % 1500);
    compare(sizes, f32, false);
  }
}

TEST_CASE("a GPU step leaves the neighbours alone", "[optim][cuda]") {
  Tensor buffer = full({2050}, 5.0, {.device = cuda(0)});
  Tensor p = buffer.narrow(0, 1, 2047).detach().set_requires_grad();
  Adam adam({p}, {.lr = 1});
  p.set_grad(ones({2047}, {.device = cuda(0)}));
  adam.step();
  const std::vector<float> all = buffer.to_vector<float>();
  CHECK((all[0] == 5 && all[1] == 4 && all[2047] == 4 && all[2048] == 5 && all[2049] == 5));
}

TEST_CASE("one group on a GPU may mix dtypes", "[optim][cuda]") {
  std::vector<Tensor> here, there;
  for (const DType dtype : {f32, bf16, f64, f32, f16}) {
    here.push_back(optim_initial({100}, 0, dtype));
    there.push_back(here.back().detach().to(cuda(0)).set_requires_grad());
    here.back().set_grad(optim_gradient({100}, 0, 1, dtype));
    there.back().set_grad(here.back().grad().to(cuda(0)));
  }
  const Tensor norm = clip_grad_norm_(here, 0.5), gpu_norm = clip_grad_norm_(there, 0.5);
  CHECK(gpu_norm.dtype() == f64);
  CHECK(worst(gpu_norm, norm) < 1e-12);
  Adam a(here), b(there);
  a.step();
  b.step();
  for (std::size_t k = 0; k < here.size(); ++k) CHECK(worst(there[k], here[k]) <= tolerance(here[k].dtype()));
}

TEST_CASE("clipping on a GPU is the clipping of the CPU", "[optim][cuda]") {
  for (const DType dtype : {f32, f64, f16, bf16}) {
    for (const std::int64_t count : {1, 3, 192, 193, 400}) {
      for (const double order : {2.0, 1.0, 3.0, k_inf, 0.0}) {
        std::vector<Tensor> here, there;
        for (std::int64_t k = 0; k < count; ++k) {
          const std::int64_t n = k == 1 ? 100000 : k % 7 == 3 ? 0 : 1 + k * 37 % 1500;
          here.push_back(zeros({n}, {.dtype = dtype, .requires_grad = true}));
          here.back().set_grad(optim_gradient({n}, k, 1, dtype));
          there.push_back(zeros({n}, {.dtype = dtype, .device = cuda(0), .requires_grad = true}));
          const Tensor moved = here.back().grad().to(cuda(0));
          there.back().set_grad(k % 2 ? moved : shifted(moved));
        }
        INFO(dtype << ", " << count << " tensors, order " << order);
        if (order == 0) {
          clip_grad_value_(here, 0.3);
          clip_grad_value_(there, 0.3);
        } else {
          const Tensor a = clip_grad_norm_(here, 0.75, {.norm_type = order});
          const Tensor b = clip_grad_norm_(there, 0.75, {.norm_type = order});
          CHECK(b.device() == cuda(0));
          CHECK(b.item() == Approx(a.item()).epsilon(dtype == f64 ? 1e-12 : 1e-6));
        }
        for (std::size_t k = 0; k < here.size(); ++k)
          REQUIRE(worst(there[k].grad(), here[k].grad()) <= tolerance(dtype));
      }
    }
  }
}

TEST_CASE("norms that are not numbers on a GPU", "[optim][cuda]") {
  for (const double order : {2.0, 1.0, k_inf, 3.0}) {
    for (const std::int64_t at : {0, 5, 1023, 20000, 40000}) {
      Tensor a = zeros({40001}, {.device = cuda(0), .requires_grad = true});
      Tensor b = zeros({1}, {.device = cuda(0), .requires_grad = true});
      std::vector<float> values(40001, 1.0f);
      values[static_cast<std::size_t>(at)] = static_cast<float>(k_nan);
      a.set_grad(from_vector(values, {.device = cuda(0)}));
      b.set_grad(ones({1}, {.device = cuda(0)}));
      CHECK_THROWS_AS(clip_grad_norm_({a, b}, 1, {.norm_type = order, .error_if_nonfinite = true}),
                      ValueError);
      CHECK(b.grad().item() == 1);
      CHECK(std::isnan(clip_grad_norm_({a, b}, 1, {.norm_type = order}).item()));
      CHECK(std::isnan(b.grad().item()));
    }
  }
  Tensor big = zeros({2}, {.device = cuda(0), .requires_grad = true});
  big.set_grad(from_vector(std::vector<float>{3e30f, -4e30f}, {.device = cuda(0)}));
  CHECK(clip_grad_norm_({big}, 1).item() == Approx(5e30));
  CHECK(big.grad().to_vector<float>()[1] == Approx(-0.8));
}

TEST_CASE("GPU steps have the same bits every time", "[optim][cuda]") {
  std::vector<std::string> runs;
  for (int run = 0; run < 2; ++run) {
    std::vector<Tensor> params = {optim_initial({300000}, 0, f32, cuda(0)),
                                  optim_initial({77}, 1, f32, cuda(0))};
    Adam adam(params, {.lr = 0.01});
    for (std::int64_t t = 1; t <= 3; ++t) {
      for (Tensor& p : params) p.set_grad(optim_gradient(p.shape(), 0, t, f32, cuda(0)));
      clip_grad_norm_(params, 1);
      adam.step();
    }
    runs.push_back(bytes_of(params[0].detach().to(cpu)) + bytes_of(params[1].detach().to(cpu)));
  }
  CHECK(runs[0] == runs[1]);
}

TEST_CASE("moments follow their parameter to a GPU, and states cross", "[optim][cuda]") {
  Tensor p = optim_initial({1000}, 0, f32), q = p.detach().clone().set_requires_grad();
  Adam a({p}, {.lr = 0.1}), b({q}, {.lr = 0.1});
  for (const auto& [param, optimizer] : {std::pair<Tensor*, Adam*>{&p, &a}, {&q, &b}}) {
    param->set_grad(optim_gradient({1000}, 0, 1, f32));
    optimizer->step();
  }
  const StateDict saved = b.state_dict().deep_copy();
  const Tensor moved = q.detach().to(cuda(0));
  q.impl()->storage = moved.impl()->storage;  // what Module::to() does
  Tensor r = moved.clone().set_requires_grad();
  Adam c({r}, {.lr = 0.1});
  c.load_state_dict(saved);
  p.set_grad(optim_gradient({1000}, 0, 2, f32));
  q.set_grad(p.grad().to(cuda(0)));
  a.step();
  b.step();
  CHECK(b.state_dict().at("0.0.exp_avg").device() == cuda(0));
  CHECK(worst(q, p) <= tolerance(f32));

  CHECK(c.state_dict().at("0.0.exp_avg").device() == cuda(0));
  r.set_grad(q.grad());
  c.step();
  CHECK(bytes_of(r.detach().to(cpu)) == bytes_of(q.detach().to(cpu)));
}

TEST_CASE("steps are counted where their parameters are", "[optim][cuda]") {
  std::vector<Tensor> params;
  for (std::int64_t k = 0; k < 45; ++k)  // more than a launch of Adagrad takes
    params.push_back(zeros({k % 9 == 7 ? 0 : 1 + 700 * k}, {.device = cuda(0), .requires_grad = true}));
  params.push_back(zeros({5}, {.requires_grad = true}));
  const auto all_empty = [] { return zeros({0}, {.device = cuda(0), .requires_grad = true}); };
  Adagrad optimizer({{params, {.lr = 0.1}}, {{all_empty(), all_empty()}, {.lr = 0.2}}});
  Adam other(params, {.lr = 0.1});
  const auto step = [&](std::int64_t t) {
    for (int g = 0; g < 2; ++g)
      for (Tensor p : optimizer.params(g)) p.set_grad(ones_like(p.detach()));
    if (t == 2) params[3].set_grad({});
    optimizer.step();
    other.step();
  };
  for (std::int64_t t = 1; t <= 3; ++t) {
    optimizer.set_lr(0.1 / static_cast<double>(t));
    step(t);
  }
  for (int round = 0; round < 2; ++round) {
    const StateDict state = optimizer.state_dict(), adam = other.state_dict();
    for (std::size_t k = 0; k < params.size(); ++k) {
      const std::string key = "0." + std::to_string(k) + ".step";
      CHECK(state.value<std::int64_t>(key) == (k == 3 ? 2 : 3) + round);
      CHECK(adam.value<std::int64_t>(key) == (k == 3 ? 2 : 3) + round);
    }
    CHECK(state.value<std::int64_t>("1.1.step") == 3 + round);
    optimizer.load_state_dict(state);
    step(4);
  }
}

TEST_CASE("counts move with their parameters, there and back", "[optim][cuda]") {
  std::vector<Tensor> here = optim_params(f64), moving = optim_params(f64);
  AdamW a(here, {.lr = 0.01}), b(moving, {.lr = 0.01});
  for (std::int64_t t = 1; t <= 9; ++t) {
    const Device device = t > 3 && t <= 6 ? cuda(0) : cpu;
    for (Tensor& p : moving) {
      const Tensor moved = p.detach().to(device).clone();
      p.impl()->storage = moved.impl()->storage;  // what Module::to() does
    }
    optim_set_gradients(here, t);
    optim_set_gradients(moving, t);
    a.step();
    b.step();
  }
  for (std::size_t k = 0; k < here.size(); ++k) {
    CHECK(worst(moving[k], here[k]) < 1e-13);
    const std::string key = "0." + std::to_string(k) + ".step";
    CHECK(b.state_dict().value<std::int64_t>(key) == a.state_dict().value<std::int64_t>(key));
  }
}
