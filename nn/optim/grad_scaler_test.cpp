#include <cmath>
#include <limits>
#include <optional>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops/autocast.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/linear/linear.h>
#include <cotangent/ops/reduce/reduce.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"
#include "tests/optim_testing.h"

using namespace ct;
using namespace ct::optim;
using namespace ct::testing;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// An optimizer of a user's own, which knows nothing of gates.
class Plain final : public Optimizer {
 public:
  explicit Plain(std::vector<Tensor> params) : Optimizer("Plain") { add_group(std::move(params), 1); }

 private:
  int moment_count(int) const override { return 0; }
  const char* moment_name(int) const override { return ""; }
  void update(int group, std::span<const int> members) override {
    for (const int i : members)
      group_at(group).params[static_cast<std::size_t>(i)].sub_(
          group_at(group).grads[static_cast<std::size_t>(i)]);
  }
};

}  // namespace

TEST_CASE("GradScaler: gradients are scaled and steps are not", "[optim][scaler]") {
  Tensor p = parameter({1, 2}), q = parameter({1, 2});
  SGD sgd({p}, {.lr = 0.5}), plain({q}, {.lr = 0.5});
  GradScaler scaler({.init_scale = 1024});
  const Tensor loss = (p * p).sum();
  const Tensor scaled = scaler.scale(loss);
  CHECK(scaled.item() == 5 * 1024);
  scaled.backward();
  CHECK(p.grad().to_vector<double>() == std::vector<double>{2048, 4096});
  const bool unscale = GENERATE(true, false);
  if (unscale) {
    scaler.unscale_(sgd);
    CHECK(p.grad().to_vector<double>() == std::vector<double>{2, 4});
  }
  scaler.step(sgd);
  scaler.update();
  (q * q).sum().backward();
  plain.step();
  CHECK(p.to_vector<double>() == q.to_vector<double>());
  CHECK(scaler.get_scale() == 1024);
}

TEST_CASE("GradScaler: an infinity skips the step and lowers the scale; good steps raise it",
          "[optim][scaler]") {
  const double bad = GENERATE(+kInf, -kInf, std::nan(""));
  const bool unscale = GENERATE(true, false);
  CAPTURE(bad, unscale);
  Tensor p = parameter({1, 2}), r = parameter({5});
  Adam adam({p, r}, {.lr = 0.25});
  GradScaler scaler({.init_scale = 64, .growth_factor = 4, .backoff_factor = 0.25, .growth_interval = 2});
  const auto step = [&](double gradient) {
    with_grad(p, {1, gradient});
    with_grad(r, {64});
    if (unscale) scaler.unscale_(adam);
    scaler.step(adam);
    scaler.update();
  };
  step(64);
  const std::vector<double> after_one = p.to_vector<double>();
  CHECK(after_one != std::vector<double>{1, 2});
  step(bad);
  CHECK(p.to_vector<double>() == after_one);
  CHECK(adam.state_dict().value<std::int64_t>("0.0.step") == 1);
  CHECK(scaler.get_scale() == 16);
  step(64);
  CHECK(scaler.get_scale() == 16);  // the infinity began a new count
  step(64);
  CHECK(scaler.get_scale() == 64);
  step(64);
  CHECK(scaler.get_scale() == 64);
  CHECK(adam.state_dict().value<std::int64_t>("0.0.step") == 4);
}

TEST_CASE("GradScaler: an infinity among many gradients is found", "[optim][scaler]") {
  const DType dtype = GENERATE(f32, f64, f16, bf16);
  for (const std::int64_t at : {0, 63, 16384, 40000}) {
    Tensor small = zeros({3}, {.dtype = dtype, .requires_grad = true});
    Tensor large = zeros({40001}, {.dtype = dtype, .requires_grad = true});
    Tensor grad = ones({40001}, {.dtype = dtype});
    grad.slice(0, at, at + 1).fill_(kInf);
    small.set_grad(ones({3}, {.dtype = dtype}));
    large.set_grad(grad);
    SGD sgd({small, large}, {.lr = 1});
    GradScaler scaler({.init_scale = 1});
    scaler.step(sgd);
    scaler.update();
    CHECK(small.to_vector<double>()[0] == 0);
    CHECK(scaler.get_scale() == 0.5);
  }
}

TEST_CASE("GradScaler: the scale stops before infinity", "[optim][scaler]") {
  Tensor p = parameter({1});
  SGD sgd({p}, {.lr = 0});
  GradScaler scaler({.init_scale = 3e38, .growth_interval = 1});
  with_grad(p, {1});
  scaler.step(sgd);
  scaler.update();
  CHECK(scaler.get_scale() == static_cast<double>(3e38f));
}

TEST_CASE("GradScaler: the scale stops before its inverse is infinite", "[optim][scaler]") {
  Tensor p = parameter({1});
  SGD sgd({p}, {.lr = 1});
  GradScaler scaler;
  for (int i = 0; i < 200; ++i) {
    with_grad(p, {std::numeric_limits<float>::infinity()});
    scaler.step(sgd);
    scaler.update();
  }
  CHECK(scaler.get_scale() == 0x1p-126);
  with_grad(p, {0x1p-126f});
  scaler.step(sgd);
  CHECK(p.item() == 0);  // 1 - 2^-126 / 2^-126
  GradScaler again;
  again.load_state_dict(scaler.state_dict());
  CHECK(again.get_scale() == 0x1p-126);
}

TEST_CASE("GradScaler: calls out of order are errors that change nothing", "[optim][scaler]") {
  Tensor p = parameter({1});
  SGD sgd({p}, {.lr = 1});
  GradScaler scaler;
  CHECK_THROWS_AS(scaler.update(), ValueError);
  CHECK_THROWS_AS(scaler.step(sgd), ValueError);  // no gradient
  CHECK_THROWS_AS(scaler.update(), ValueError);
  with_grad(p, {65536});
  scaler.unscale_(sgd);
  CHECK_THROWS_AS(scaler.unscale_(sgd), ValueError);
  scaler.step(sgd);
  CHECK(p.item() == 0);
  CHECK_THROWS_AS(scaler.step(sgd), ValueError);
  CHECK_THROWS_AS(scaler.unscale_(sgd), ValueError);
  scaler.update();
  CHECK_THROWS_AS(GradScaler({.init_scale = 0}), ValueError);
  CHECK_THROWS_AS(GradScaler({.init_scale = 1e-40}), ValueError);  // its inverse is infinite
  CHECK_THROWS_AS(GradScaler({.init_scale = 1e39}), ValueError);
  CHECK_THROWS_AS(scaler.update(1e-50), ValueError);
  CHECK_THROWS_AS(GradScaler({.growth_factor = 1}), ValueError);
  CHECK_THROWS_AS(GradScaler({.growth_factor = INFINITY}), ValueError);
  CHECK_THROWS_AS(GradScaler({.backoff_factor = 1}), ValueError);
  CHECK_THROWS_AS(GradScaler({.growth_interval = 0}), ValueError);
  CHECK_THROWS_AS(scaler.update(kInf), ValueError);
  scaler.update(8);
  CHECK(scaler.get_scale() == 8);
}

TEST_CASE("GradScaler: several optimizers share a scale, each is skipped on its own", "[optim][scaler]") {
  Tensor p = parameter({1}), q = parameter({1});
  SGD a({p}, {.lr = 1});
  Plain b({q});
  GradScaler scaler({.init_scale = 2});
  with_grad(p, {kInf});
  with_grad(q, {1});
  scaler.step(a);
  scaler.step(b);
  scaler.update();
  CHECK(p.item() == 1);
  CHECK(q.item() == 0.5);  // 1 - 1 / 2
  CHECK(scaler.get_scale() == 1);
  with_grad(p, {1});
  with_grad(q, {kInf});
  scaler.step(a);
  scaler.step(b);
  scaler.update();
  CHECK(p.item() == 0);
  CHECK(q.item() == 0.5);
  CHECK(scaler.get_scale() == 0.5);
}

TEST_CASE("GradScaler: clipping between unscale_ and step sees the true gradients", "[optim][scaler]") {
  Tensor p = parameter({0, 0}), q = parameter({0, 0});
  SGD sgd({p}, {.lr = 1}), plain({q}, {.lr = 1});
  GradScaler scaler({.init_scale = 256});
  with_grad(p, {3 * 256, 4 * 256});
  with_grad(q, {3, 4});
  scaler.unscale_(sgd);
  CHECK(clip_grad_norm_({p}, 1).item() == 5);
  clip_grad_norm_({q}, 1);
  scaler.step(sgd);
  plain.step();
  CHECK(p.to_vector<double>() == q.to_vector<double>());
}

TEST_CASE("GradScaler: small gradients of f16 parameters survive", "[optim][scaler]") {
  // 2^-30 is 0 in f16; times 2^16 it is not.
  Tensor p = parameter({0}, f16);
  SGD sgd({p}, {.lr = 1 << 20});
  GradScaler scaler({.init_scale = 65536});
  with_grad(p, {std::ldexp(1, -14)});
  scaler.step(sgd);
  CHECK(p.item() == -std::ldexp(1, -10));
}

TEST_CASE("GradScaler: disabled, and its state", "[optim][scaler]") {
  Tensor p = parameter({1});
  SGD sgd({p}, {.lr = 1});
  GradScaler off({.enabled = false});
  const Tensor loss = (p * p).sum();
  CHECK(off.scale(loss).is_same(loss));
  with_grad(p, {kInf});
  off.unscale_(sgd);
  off.step(sgd);
  off.update();
  CHECK(p.item() == -kInf);
  CHECK(off.get_scale() == 1);

  GradScaler scaler({.init_scale = 8, .growth_interval = 3});
  Tensor q = parameter({1});
  SGD other({q}, {.lr = 1});
  const auto step = [&](GradScaler& s) {
    with_grad(q, {1});
    s.step(other);
    s.update();
  };
  step(scaler);
  step(scaler);
  GradScaler resumed;
  resumed.load_state_dict(scaler.state_dict());
  CHECK(resumed.get_scale() == 8);
  step(resumed);
  CHECK(resumed.get_scale() == 16);
  StateDict broken = scaler.state_dict();
  broken.set_value("backoff_factor", 2.0);
  CHECK_THROWS_AS(resumed.load_state_dict(broken), ValueError);
  CHECK(resumed.get_scale() == 16);
}

TEST_CASE("GradScaler trains a small model in f16 like f32 does", "[optim][scaler]") {
  const auto train = [](bool half) {
    manual_seed(3);
    Tensor w = (randn({8, 16}) * 0.1).detach().set_requires_grad();
    const Tensor x = randn({32, 16}), y = randn({32, 8});
    AdamW adam({w}, {.lr = 1e-2});
    GradScaler scaler({.init_scale = 1e6, .growth_interval = 10, .enabled = half});
    double last = 0;
    for (int i = 0; i < 60; ++i) {
      adam.zero_grad();
      Tensor loss;
      {
        std::optional<Autocast> guard;
        if (half) guard.emplace(f16);
        loss = square(linear(x, w) - y).mean();
      }
      scaler.scale(loss).backward();
      scaler.step(adam);
      scaler.update();
      last = loss.item();
    }
    return last;
  };
  const double want = train(false);
  CHECK(train(true) == Approx(want).epsilon(0.01));
}

TEST_CASE("GradScaler on CUDA: the same as on the CPU, and the host waits for nothing",
          "[optim][scaler][cuda]") {
  const Device gpu = cuda(0);
  const DType dtype = GENERATE(f32, f16, bf16);
  const bool unscale = GENERATE(true, false);
  std::vector<Tensor> host = optim_params(dtype), device = optim_params(dtype, gpu);
  AdamW a(host, {.lr = 0.01}), b(device, {.lr = 0.01});
  GradScaler on_host({.init_scale = 8, .growth_interval = 3}),
      on_device({.init_scale = 8, .growth_interval = 3});
  on_device.scale(ones({}, {.device = gpu}));
  for (int t = 0; t < 12; ++t) {
    optim_set_gradients(host, t);
    optim_set_gradients(device, t);
    if (t % 5 == 3) {
      host[0].grad().slice(0, 36, 37).fill_(kInf);
      device[0].grad().slice(0, 36, 37).fill_(kInf);
    }
    if (unscale) on_host.unscale_(a);
    on_host.step(a);
    on_host.update();
    synchronize(gpu);
    const std::uint64_t waits = sync_count();
    {
      const SyncPolicyGuard strict(SyncPolicy::error);
      if (unscale) on_device.unscale_(b);
      on_device.step(b);
      on_device.update();
    }
    CHECK(sync_count() == waits);
  }
  CHECK(on_device.get_scale() == on_host.get_scale());
  for (std::size_t i = 0; i < host.size(); ++i) {
    const std::string count = "0." + std::to_string(i) + ".step";
    CHECK(a.state_dict().value<std::int64_t>(count) == b.state_dict().value<std::int64_t>(count));
    const std::vector<double> want = host[i].to_vector<double>(), got = device[i].to_vector<double>();
    for (std::size_t k = 0; k < want.size(); ++k)
      CHECK(got[k] == Approx(want[k]).epsilon(dtype == f32 ? 1e-5 : 1e-2).margin(1e-6));
  }
}

TEST_CASE("GradScaler: an optimizer is not taken for one that lay at its address", "[optim][scaler]") {
  const Tensor p = parameter({1, 2});
  Tensor q = parameter({1, 2});
  GradScaler scaler({.init_scale = 1024});
  std::optional<SGD> sgd;
  sgd.emplace(std::vector{p}, SGDOptions{.lr = 0.5});
  scaler.scale((p * p).sum()).backward();
  scaler.unscale_(*sgd);
  sgd.emplace(std::vector{q}, SGDOptions{.lr = 0.5});
  scaler.scale((q * q).sum()).backward();
  scaler.step(*sgd);
  CHECK(q.to_vector<double>() == std::vector<double>{0, 0});
  scaler.update();

  q.set_grad({});
  scaler.scale((q * q + q).sum()).backward();
  scaler.step(*sgd);
  sgd.emplace(std::vector{p}, SGDOptions{.lr = 0.5});
  CHECK_NOTHROW(scaler.step(*sgd));  // its first one
}
