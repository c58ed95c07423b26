#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/linear/linear.h>
#include <cotangent/ops/loss/classes/cross_entropy.h>

#include "tests/catch.h"
#include "tests/optim_testing.h"

// PyTorch's values, made by tests/golden/make_optim.py.

using namespace ct;
using namespace ct::optim;
using ct::testing::flat_values;
using ct::testing::optim_golden;
using ct::testing::optim_params;
using ct::testing::optim_set_gradients;
using ct::testing::worst_each;

namespace {

using Make = std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>&)>;

Make sgd(SGDOptions options) {
  options.lr = 0.02;
  return [=](const auto& p) { return std::make_unique<SGD>(p, options); };
}
Make adam(AdamOptions options) {
  options.lr = 0.01;
  return [=](const auto& p) { return std::make_unique<Adam>(p, options); };
}

template <class O, class Options>
Make made(Options options) {
  return [=](const auto& p) { return std::make_unique<O>(p, options); };
}

const std::map<std::string, Make> runs = {
    {"sgd", sgd({})},
    {"sgd_momentum", sgd({.momentum = 0.9})},
    {"sgd_dampening", sgd({.momentum = 0.8, .dampening = 0.3})},
    {"sgd_nesterov", sgd({.momentum = 0.9, .nesterov = true})},
    {"sgd_decay", sgd({.momentum = 0.9, .weight_decay = 0.05})},
    {"adam", adam({})},
    {"adam_decay", adam({.weight_decay = 0.05})},
    {"adam_amsgrad", adam({.beta1 = 0.3, .beta2 = 0.9, .amsgrad = true})},
    {"adamw",
     [](const auto& p) {
       return std::make_unique<AdamW>(p, AdamWOptions{.lr = 0.01, .weight_decay = 0.05});
     }},
    {"two_groups",
     [](const auto& p) {
       return std::make_unique<AdamW>(std::vector<ParamGroup<AdamWOptions>>{
           {{p[0], p[1]}, {.lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1}},
           {{p[2], p[3]}, {.lr = 0.003, .eps = 1e-3, .weight_decay = 0}}});
     }},
    {"clipped", adam({})},
    {"rmsprop", made<RMSprop>(RMSpropOptions{.lr = 0.01})},
    {"rmsprop_momentum", made<RMSprop>(RMSpropOptions{.lr = 0.01, .alpha = 0.9, .momentum = 0.8})},
    {"rmsprop_centered",
     made<RMSprop>(RMSpropOptions{
         .lr = 0.01, .alpha = 0.95, .eps = 1e-3, .weight_decay = 0.05, .momentum = 0.5, .centered = true})},
    {"adagrad", made<Adagrad>(AdagradOptions{.lr = 0.05})},
    {"adagrad_decay", made<Adagrad>(AdagradOptions{.lr = 0.05,
                                                   .lr_decay = 0.01,
                                                   .weight_decay = 0.05,
                                                   .initial_accumulator_value = 0.25,
                                                   .eps = 1e-3})},
    {"lion", made<Lion>(LionOptions{.lr = 0.01, .weight_decay = 0.1})},
};

void check_runs(DType dtype, double tolerance, Device device = cpu) {
  for (const auto& [name, make] : runs) {
    const std::string key = name + '.' + std::string(ct::name(dtype));
    const Tensor steps = optim_golden().at(key + ".steps");
    const std::vector<double> trace = optim_golden().at(key + ".trace").to_vector<double>();
    std::vector<Tensor> params = optim_params(dtype, device);
    const auto optimizer = make(params);
    std::int64_t row = 0;
    for (std::int64_t t = 1; t <= 100; ++t) {
      INFO(key << ", step " << t);
      optim_set_gradients(params, t);
      if (name == "clipped") clip_grad_norm_(params, 1.5);
      optimizer->step();
      const std::vector<double> values = flat_values(params);
      double sum = 0, size = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        sum += values[i] * static_cast<double>(i + 1) / static_cast<double>(values.size());
        size += std::abs(values[i]) * static_cast<double>(i + 1) / static_cast<double>(values.size());
      }
      REQUIRE(worst_each({sum}, {trace[static_cast<std::size_t>(t - 1)]}, size) <= tolerance);
      for (const std::int64_t kept : {1, 2, 3, 8, 32, 100}) {
        if (kept != t) continue;
        REQUIRE(worst_each(values, steps.select(0, row++).to_vector<double>(), 1) <= tolerance);
      }
    }
    CHECK(row == 6);
  }
}

}  // namespace

TEST_CASE("a hundred steps of every optimizer equal PyTorch's", "[optim]") {
  // Parameters are about 1 in size and errors are relative to 1 where one passes through zero. f32 rounds
  // about three times in a step and a hundred steps add up.
  check_runs(f64, 1e-12);
  check_runs(f32, 1e-6);
}

TEST_CASE("a hundred steps of every optimizer equal PyTorch's on a GPU", "[optim][cuda]") {
  check_runs(f64, 1e-12, cuda(0));
  check_runs(f32, 1e-6, cuda(0));
}

namespace {

void check_clip(DType dtype, double tolerance, Device device = cpu) {
  struct Kind {
    const char* name;
    double order, limit;
  };
  const double inf = std::numeric_limits<double>::infinity();
  for (const Kind& kind : {Kind{"2", 2, 1.25}, Kind{"1", 1, 5}, Kind{"inf", inf, 0.5}, Kind{"3", 3, 0.75},
                           Kind{"below", 2, 1000}, Kind{"value", 0, 0.4}}) {
    const std::string key = "clip." + std::string(kind.name) + '.' + std::string(ct::name(dtype));
    INFO(key);
    std::vector<Tensor> params = optim_params(dtype, device);
    optim_set_gradients(params, 1);
    std::vector<Tensor> results;
    if (kind.order == 0) {
      clip_grad_value_(params, kind.limit);
    } else {
      results.push_back(clip_grad_norm_(params, kind.limit, {.norm_type = kind.order}));
      CHECK(results[0].dtype() == dtype);
      CHECK(results[0].device() == device);
    }
    for (const Tensor& p : params)
      if (p.grad().defined()) results.push_back(p.grad());
    CHECK(worst_each(flat_values(results), optim_golden().at(key).to_vector<double>(), 1e-30) <= tolerance);
  }
}

}  // namespace

TEST_CASE("clipping equals PyTorch's", "[optim]") {
  check_clip(f64, 1e-12);
  check_clip(f32, 1e-6);
}

TEST_CASE("clipping equals PyTorch's on a GPU", "[optim][cuda]") {
  check_clip(f64, 1e-12, cuda(0));
  check_clip(f32, 1e-6, cuda(0));
}

namespace {

void check_network(DType dtype, double tolerance, Device device = cpu) {
  const auto values = [&](const Shape& shape, std::int64_t k, double unit) {
    std::vector<double> list;
    for (std::int64_t i = 0; i < numel(shape); ++i)
      list.push_back(static_cast<double>((i * 271 + k * 97 + 13) % 401 - 200) / unit);
    return from_vector(list, shape, {.dtype = dtype, .device = device});
  };
  std::vector<Tensor> params;
  for (const Shape& shape : {Shape{16, 20}, Shape{16}, Shape{5, 16}, Shape{5}}) {
    params.push_back(values(shape, static_cast<std::int64_t>(params.size()), 512));
    params.back().set_requires_grad();
  }
  const Tensor x = values({4, 16, 20}, 9, 128);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 64; ++i) labels.push_back(i * i % 7 % 5);
  const Tensor y = from_vector(labels, {4, 16}, {.device = device});

  AdamW adamw(params, {.lr = 0.02});
  SequentialLR schedule(adamw,
                        {std::make_shared<LinearLR>(adamw, LinearLROptions{.start_factor = 0.1, .steps = 10}),
                         std::make_shared<CosineAnnealingLR>(adamw, CosineAnnealingLROptions{90})},
                        {10});
  const std::vector<double> want =
      optim_golden().at("mlp." + std::string(ct::name(dtype))).to_vector<double>();
  for (std::int64_t t = 0; t < 100; ++t) {
    const Tensor hidden = relu(linear(x[t % 4], params[0], params[1]));
    const Tensor loss = cross_entropy(linear(hidden, params[2], params[3]), y[t % 4]);
    adamw.zero_grad();
    loss.backward();
    clip_grad_norm_(params, 0.5);
    adamw.step();
    schedule.step();
    INFO(dtype << ", step " << t);
    REQUIRE(worst_each({loss.item()}, {want[static_cast<std::size_t>(t)]}, 1e-30) <= tolerance);
  }
}

}  // namespace

TEST_CASE("the losses of a network's first hundred steps equal PyTorch's", "[optim]") {
  check_network(f64, 1e-12);
  check_network(f32, 1e-5);
}

TEST_CASE("the losses of a network's first hundred steps equal PyTorch's on a GPU", "[optim][cuda]") {
  check_network(f64, 1e-12, cuda(0));
  check_network(f32, 1e-5, cuda(0));
}

TEST_CASE("learning-rate schedules equal PyTorch's", "[optim]") {
  using Schedule = std::function<std::shared_ptr<LRScheduler>(Optimizer&)>;
  const std::map<std::string, Schedule> schedules = {
      {"step",
       [](Optimizer& o) {
         return std::make_shared<StepLR>(o, StepLROptions{4, 0.3});
       }},
      {"multi_step",
       [](Optimizer& o) {
         return std::make_shared<MultiStepLR>(o, MultiStepLROptions{{7, 3, 11, 3}, 0.5});
       }},
      {"exponential",
       [](Optimizer& o) { return std::make_shared<ExponentialLR>(o, ExponentialLROptions{0.9}); }},
      {"cosine",
       [](Optimizer& o) {
         return std::make_shared<CosineAnnealingLR>(o, CosineAnnealingLROptions{10, 0.002});
       }},
      {"linear",
       [](Optimizer& o) {
         return std::make_shared<LinearLR>(o, LinearLROptions{0.25, 0.9, 6});
       }},
      {"lambda",
       [](Optimizer& o) {
         return std::make_shared<LambdaLR>(
             o, std::vector<LambdaLR::Factor>{
                    [](std::int64_t t) { return std::pow(0.95, static_cast<double>(t)); },
                    [](std::int64_t t) { return 1 / static_cast<double>(t + 1); }});
       }},
      {"warmup_cosine",
       [](Optimizer& o) {
         return std::make_shared<SequentialLR>(
             o,
             std::vector<std::shared_ptr<LRScheduler>>{
                 std::make_shared<LinearLR>(o, LinearLROptions{.start_factor = 0.1, .steps = 5}),
                 std::make_shared<CosineAnnealingLR>(o, CosineAnnealingLROptions{20, 0.001}),
                 std::make_shared<ExponentialLR>(o, ExponentialLROptions{0.5})},
             std::vector<std::int64_t>{5, 22});
       }},
      {"restarts",
       [](Optimizer& o) {
         return std::make_shared<CosineAnnealingWarmRestarts>(
             o, CosineAnnealingWarmRestartsOptions{4, 2, 0.001});
       }},
      {"restarts_even",
       [](Optimizer& o) {
         return std::make_shared<CosineAnnealingWarmRestarts>(o, CosineAnnealingWarmRestartsOptions{7});
       }},
      {"one_cycle",
       [](Optimizer& o) {
         return std::make_shared<OneCycleLR>(o, OneCycleLROptions{.max_lr = 0.5, .total_steps = 31});
       }},
      {"one_cycle_phases",
       [](Optimizer& o) {
         return std::make_shared<OneCycleLR>(o, OneCycleLROptions{.max_lr = 0.3,
                                                                  .total_steps = 34,
                                                                  .pct_start = 0.25,
                                                                  .linear = true,
                                                                  .div_factor = 10,
                                                                  .final_div_factor = 100,
                                                                  .three_phase = true});
       }},
      {"polynomial",
       [](Optimizer& o) {
         return std::make_shared<PolynomialLR>(o, PolynomialLROptions{20, 1.7});
       }},
  };
  for (const auto& [name, make] : schedules) {
    SGD sgd({{{ones({1}, {.requires_grad = true})}, {.lr = 0.1}},
             {{ones({1}, {.requires_grad = true})}, {.lr = 0.04}}});
    const auto schedule = make(sgd);
    const Tensor want = optim_golden().at("lr." + name);
    for (std::int64_t t = 0; t < want.size(0); ++t) {
      INFO(name << ", time " << t);
      // PyTorch multiplies the rate of the step before, we compute each anew: its roundings add up.
      CHECK(worst_each({sgd.lr(0), sgd.lr(1)}, want.select(0, t).to_vector<double>(), 0.04) < 1e-14);
      CHECK(schedule->last_lr() == std::vector<double>{sgd.lr(0), sgd.lr(1)});
      schedule->step();
    }
  }
}

TEST_CASE("rates that wait for a plateau equal PyTorch's", "[optim]") {
  const std::map<std::string, ReduceLROnPlateauOptions> all = {
      {"plateau", {.factor = 0.5, .patience = 2, .threshold = 0.05, .cooldown = 1}},
      {"plateau_max", {.maximize = true, .factor = 0.3, .patience = 1, .absolute = true, .min_lr = 0.005}}};
  for (const auto& [name, options] : all) {
    SGD sgd({{{ones({1}, {.requires_grad = true})}, {.lr = 0.1}},
             {{ones({1}, {.requires_grad = true})}, {.lr = 0.04}}});
    auto schedule = std::make_unique<ReduceLROnPlateau>(sgd, options);
    const Tensor want = optim_golden().at("lr." + name);
    REQUIRE(want.size(0) == 30);
    for (std::int64_t t = 0; t < 30; ++t) {
      INFO(name << ", time " << t);
      if (t == 13) {  // goes on where it stopped
        const StateDict state = schedule->state_dict();
        schedule = std::make_unique<ReduceLROnPlateau>(sgd, options);
        schedule->load_state_dict(state);
      }
      schedule->step(static_cast<double>(t * 37 % 11 - t) / 8);
      CHECK(worst_each({sgd.lr(0), sgd.lr(1)}, want.select(0, t).to_vector<double>(), 0.04) < 1e-14);
    }
  }
}
