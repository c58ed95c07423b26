#include <cmath>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops/creation/creation.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"
#include "tests/optim_testing.h"

using namespace ct;
using namespace ct::optim;
using namespace ct::testing;

namespace {

void set_values(std::vector<Tensor>& params, std::int64_t t) {
  const NoGrad no_grad;
  for (std::size_t k = 0; k < params.size(); ++k)
    params[k].copy_(optim_gradient(params[k].shape(), static_cast<std::int64_t>(k), t, params[k].dtype()));
}

}  // namespace

TEST_CASE("Ema: the formula, in f32 for 16-bit parameters", "[optim][ema]") {
  const DType dtype = GENERATE(f32, f64, bf16, f16);
  const bool warmup = GENERATE(true, false);
  std::vector<Tensor> params = optim_params(dtype);
  Ema ema(params, {.decay = 0.75, .warmup = warmup});
  std::vector<double> want = flat_values(params);
  for (int t = 1; t <= 30; ++t) {
    set_values(params, t);
    ema.update();
    const double decay = warmup ? std::min(0.75, (1.0 + t) / (10.0 + t)) : 0.75;
    const std::vector<double> now = flat_values(params);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] = decay * want[i] + (1 - decay) * now[i];
  }
  CHECK(ema.updates() == 30);
  for (const Tensor& t : ema.averages()) CHECK(t.dtype() == (dtype == f64 ? f64 : f32));
  const std::vector<double> got = flat_values(ema.averages());
  for (std::size_t i = 0; i < want.size(); ++i)
    CHECK(got[i] == Approx(want[i]).epsilon(dtype == f64 ? 1e-13 : 1e-5).margin(1e-6));
}

TEST_CASE("Ema: the same bits for any number of threads, large tensors too", "[optim][ema]") {
  Tensor p = randn({3, 20001}).set_requires_grad();
  Ema one({p}, {.decay = 0.9}), many({p}, {.decay = 0.9});
  {
    const NoGrad no_grad;
    p.mul_(2.0);
  }
  const int threads = num_threads();
  set_num_threads(1);
  one.update();
  set_num_threads(3);
  many.update();
  set_num_threads(threads);
  CHECK(all_bytes(one.averages()) == all_bytes(many.averages()));
}

TEST_CASE("Ema: every element of a large tensor, of any dtype", "[optim][ema]") {
  const DType dtype = GENERATE(f32, f64, bf16, f16);
  std::vector<Tensor> params{randn({2, 9001}).to(dtype), randn({3, 77}).to(dtype)};
  for (Tensor& p : params) p.set_requires_grad();
  const std::vector<double> before = flat_values(params);
  Ema ema(params, {.decay = 0.75});
  set_values(params, 1);
  const std::vector<double> now = flat_values(params);
  ema.update();
  const std::vector<double> got = flat_values(ema.averages());
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    most = std::max(most, std::abs(got[i] - (0.75 * before[i] + 0.25 * now[i])));
  CHECK(most < 1e-6);
}

TEST_CASE("Ema: apply and restore give back every bit; masters keep their digits", "[optim][ema]") {
  const DType dtype = GENERATE(f32, bf16);
  std::vector<Tensor> params = optim_params(dtype), other = optim_params(dtype);
  AdamW a(params, {.lr = 1e-3}), b(other, {.lr = 1e-3});
  Ema ema(params, {.decay = 0.5});
  for (int t = 1; t <= 10; ++t) {
    optim_set_gradients(params, t);
    optim_set_gradients(other, t);
    a.step();
    b.step();
    ema.update();
    const std::vector<std::string> before = all_bytes(params);
    {
      const EmaScope averaged(ema);
      CHECK(ema.applied());
      CHECK(params[0].detach().to_vector<float>() == ema.averages()[0].to(dtype).to_vector<float>());
      CHECK(all_bytes(params) != before);
      CHECK_THROWS_AS(ema.update(), ValueError);
      CHECK_THROWS_AS(ema.apply(), ValueError);
    }
    CHECK(all_bytes(params) == before);
    CHECK(all_bytes(params) == all_bytes(other));
  }
  CHECK_THROWS_AS(ema.restore(), ValueError);
}

TEST_CASE("EmaScope: its end throws nothing", "[optim][ema]") {
  std::vector<Tensor> params = optim_params(f32);
  Ema ema(params);
  {
    const NoGrad no_grad;
    params[0].zero_();
  }
  const std::vector<std::string> before = all_bytes(params);
  {
    const EmaScope averaged(ema);
    ema.restore();
    CHECK(all_bytes(params) == before);
  }
  CHECK(all_bytes(params) == before);
  TensorImpl& last = *params.back().impl();
  const Shape shape = last.shape;
  {
    const EmaScope averaged(ema);
    last.shape = Shape{last.numel + 1};  // what was kept does not fit any more
  }
  CHECK(ema.applied());
  last.shape = shape;
  ema.restore();
  CHECK(all_bytes(params) == before);
}

TEST_CASE("Ema of a module: its state has the parameters' names and resumes", "[optim][ema]") {
  nn::Linear layer(3, 2), resumed(3, 2);
  Ema ema(layer, {.decay = 0.5});
  {
    const NoGrad no_grad;
    layer.get("weight").fill_(4.0);
  }
  ema.update();
  const StateDict state = ema.state_dict().deep_copy();
  CHECK(state.contains("weight"));
  CHECK(state.contains("bias"));
  resumed.load_state_dict(state);
  CHECK(resumed.get("weight").to_vector<float>() == ema.averages()[0].to_vector<float>());
  Ema again(resumed, {.decay = 0.5});
  again.load_state_dict(state);
  CHECK(again.updates() == 1);
  ema.update();
  resumed.load_state_dict(layer.state_dict());
  again.update();
  CHECK(all_bytes(again.averages()) == all_bytes(ema.averages()));
  StateDict wrong = state;
  wrong.set("bias", zeros({7}));
  CHECK_THROWS_AS(again.load_state_dict(wrong), ValueError);
  CHECK(all_bytes(again.averages()) == all_bytes(ema.averages()));
  CHECK_THROWS_AS(Ema(layer, {.decay = 1}), ValueError);
  CHECK_THROWS_AS(Ema(std::vector<Tensor>{}), ValueError);
}

TEST_CASE("decay_groups: matrices decay, vectors do not", "[optim]") {
  nn::Linear layer(3, 2);
  Tensor frozen = zeros({4, 4});
  std::vector<Tensor> params = layer.parameters();
  params.push_back(frozen);
  const auto groups = decay_groups(params, AdamWOptions{.lr = 0.5, .weight_decay = 0.25});
  REQUIRE(groups.size() == 2);
  REQUIRE(groups[0].params.size() == 1);
  CHECK(groups[0].params[0].is_same(layer.get("weight")));
  CHECK(groups[0].options.weight_decay == 0.25);
  REQUIRE(groups[1].params.size() == 1);
  CHECK(groups[1].params[0].is_same(layer.get("bias")));
  CHECK(groups[1].options.weight_decay == 0);
  CHECK(groups[1].options.lr == 0.5);
  AdamW adamw(decay_groups(layer, AdamWOptions{.weight_decay = 0.25}));
  CHECK(adamw.group_count() == 2);
  CHECK(decay_groups(nn::Linear(3, 2, {.bias = false}), SGDOptions{}).size() == 1);
}

TEST_CASE("Ema on CUDA is that of the CPU", "[optim][ema][cuda]") {
  const DType dtype = GENERATE(f32, f64, bf16, f16);
  std::vector<Tensor> host = optim_params(dtype), device;
  host.push_back(randn({5, 4099}).to(dtype).detach().set_requires_grad());
  for (const Tensor& p : host) device.push_back(p.detach().to(cuda(0)).set_requires_grad());
  Ema a(host, {.decay = 0.75}), b(device, {.decay = 0.75});
  for (int t = 1; t <= 10; ++t) {
    set_values(host, t);
    const NoGrad no_grad;
    for (std::size_t i = 0; i < host.size(); ++i) device[i].copy_(host[i]);
    a.update();
    b.update();
  }
  const std::vector<double> want = flat_values(a.averages()), got = flat_values(b.averages());
  for (std::size_t i = 0; i < want.size(); ++i)
    CHECK(std::abs(got[i] - want[i]) <= 1e-6 * (1 + std::abs(want[i])));
}
