#include <cmath>
#include <limits>
#include <memory>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/autograd/node.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/testing/allocators.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"
#include "tests/optim_testing.h"

using namespace ct;
using namespace ct::optim;
using namespace ct::testing;

TEST_CASE("steps by hand", "[optim]") {
  SECTION("SGD") {
    Tensor p = with_grad(parameter({1, -2}), {0.5, 0.25});
    SGD sgd({p}, {.lr = 0.5});
    sgd.step();
    CHECK(p.to_vector<float>() == std::vector<float>{0.75f, -2.125f});
    sgd.step();
    CHECK(p.to_vector<float>() == std::vector<float>{0.5f, -2.25f});
  }
  SECTION("momentum begins with the gradient") {
    Tensor p = with_grad(parameter({1}), {1});
    SGD sgd({p}, {.lr = 0.25, .momentum = 0.5, .dampening = 0.5});
    sgd.step();  // b = 1
    CHECK(p.item() == 0.75);
    sgd.step();  // b = 0.5 + 0.5 = 1
    CHECK(p.item() == 0.5);
  }
  SECTION("Nesterov looks ahead") {
    Tensor p = with_grad(parameter({1}), {1});
    SGD sgd({p}, {.lr = 0.25, .momentum = 0.5, .nesterov = true});
    sgd.step();  // b = 1, g + 0.5 b = 1.5
    CHECK(p.item() == 0.625);
    sgd.step();  // b = 1.5, 1.75
    CHECK(p.item() == 0.1875);
  }
  SECTION("Adam's first step is lr long, whatever the gradient's size") {
    Tensor p = with_grad(parameter({1, 1, 1}, f64), {1e-3, -40, 0});
    Adam adam({p}, {.lr = 0.125, .eps = 0});
    const Tensor nan = p.select(0, 2);  // 0 / 0
    adam.step();
    CHECK(p.select(0, 0).item() == Approx(0.875).epsilon(1e-12));
    CHECK(p.select(0, 1).item() == Approx(1.125).epsilon(1e-12));
    CHECK(std::isnan(nan.item()));
  }
  SECTION("AdamW shrinks the parameter, not the gradient") {
    Tensor p = with_grad(parameter({4}, f64), {0});
    AdamW adamw({p}, {.lr = 0.5, .weight_decay = 0.25});
    adamw.step();
    CHECK(p.item() == 3.5);
  }
}

namespace {

// The formulas once more, for one number, in f64.
struct Reference {
  AdamOptions o;
  double m = 0, v = 0, most = 0;
  int t = 0;
  double step(double p, double g) {
    ++t;
    g += o.weight_decay * p;
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    most = std::max(most, v);
    const double size = (o.amsgrad ? most : v) / (1 - std::pow(o.beta2, t));
    return p - o.lr * (m / (1 - std::pow(o.beta1, t))) / (std::sqrt(size) + o.eps);
  }
};

}  // namespace

TEST_CASE("small gradients after large ones", "[optim]") { ct::testing::check_small_after_large(cpu); }

TEST_CASE("tensors of all sizes take the same steps", "[optim]") {
  // Vector widths, chunks (16384 elements) that end within a tensor and tensors that share a chunk.
  const std::vector<std::int64_t> sizes = {1,  2,     3,   15, 16, 17, 31,    33, 63, 64,
                                           65, 16383, 100, 1,  0,  5,  40001, 7,  1,  16384};
  // A decay of 1/16 adds without rounding; where gradient and decay cancel, a rounding would be all that is
  // left.
  for (const bool amsgrad : {false, true}) {
    const AdamOptions o{.lr = 0.01, .weight_decay = 0.0625, .amsgrad = amsgrad};
    std::vector<Tensor> params;
    std::vector<std::vector<Reference>> references;
    std::vector<std::vector<double>> values;
    for (const std::int64_t n : sizes) {
      params.push_back(optim_initial({n}, static_cast<std::int64_t>(params.size()), f64));
      references.emplace_back(static_cast<std::size_t>(n), Reference{o});
      values.push_back(params.back().detach().to_vector<double>());
    }
    Adam adam(params, o);
    for (int t = 1; t <= 4; ++t) {
      for (std::size_t k = 0; k < params.size(); ++k) {
        const Tensor grad = optim_gradient(params[k].shape(), static_cast<std::int64_t>(k), t, f64);
        params[k].set_grad(grad);
        const std::vector<double> g = grad.to_vector<double>();
        for (std::size_t i = 0; i < g.size(); ++i) values[k][i] = references[k][i].step(values[k][i], g[i]);
      }
      adam.step();
    }
    for (std::size_t k = 0; k < params.size(); ++k) {
      const std::vector<double> got = params[k].detach().to_vector<double>();
      double worst = 0;
      for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - values[k][i]));
      INFO("size " << sizes[k] << ", error " << worst);
      CHECK(worst < 1e-14);
    }
  }
}

TEMPLATE_TEST_CASE("16-bit parameters without masters take f32 steps and are rounded once", "[optim]", Half,
                   BFloat16) {
  constexpr DType dtype = dtype_of<TestType>;
  std::vector<Tensor> narrow = optim_params(dtype), wide;
  for (const Tensor& p : narrow) wide.push_back(p.detach().to(f32).clone().set_requires_grad());
  AdamW a(narrow, {.lr = 0.01, .master_weights = false}), b(wide, {.lr = 0.01});
  SGD c(narrow, {.lr = 0.01, .momentum = 0.9, .master_weights = false}),
      d(wide, {.lr = 0.01, .momentum = 0.9});
  for (int t = 1; t <= 12; ++t) {
    optim_set_gradients(narrow, t);
    for (std::size_t k = 0; k < wide.size(); ++k) {
      const Tensor grad = narrow[k].grad();
      wide[k].set_grad(grad.defined() ? grad.to(f32) : Tensor{});
    }
    for (auto [x, y] : {std::pair<Optimizer*, Optimizer*>{&a, &b}, {&c, &d}}) {
      x->step();
      y->step();
      const NoGrad guard;
      for (std::size_t k = 0; k < wide.size(); ++k) {
        const Tensor rounded = wide[k].detach().to(dtype);
        CHECK(bytes_of(narrow[k]) == bytes_of(rounded));
        wide[k].copy_(rounded.to(f32));
      }
    }
  }
  const StateDict state = a.state_dict();
  CHECK(state.at("0.0.exp_avg").dtype() == f32);
}

TEST_CASE("one group may mix dtypes", "[optim]") {
  const std::vector<Tensor> mixed = {optim_initial({5}, 0, f32), optim_initial({6}, 1, f64),
                                     optim_initial({7}, 2, f32), optim_initial({3}, 3, bf16)};
  std::vector<Tensor> alone;
  for (const Tensor& p : mixed) alone.push_back(p.detach().clone().set_requires_grad());
  Adam together(mixed);
  std::vector<std::unique_ptr<Adam>> separate;
  for (const Tensor& p : alone) separate.push_back(std::make_unique<Adam>(std::vector<Tensor>{p}));
  for (int t = 1; t <= 3; ++t) {
    for (std::size_t k = 0; k < mixed.size(); ++k) {
      const Tensor grad = optim_gradient(mixed[k].shape(), 0, t, mixed[k].dtype());
      Tensor(mixed[k]).set_grad(grad);
      alone[k].set_grad(grad);
      separate[k]->step();
    }
    together.step();
  }
  CHECK(all_bytes(mixed) == all_bytes(alone));
}

TEST_CASE("a parameter without a gradient is left alone", "[optim]") {
  Tensor a = with_grad(parameter({1}), {1}), b = with_grad(parameter({1}), {1}), never = parameter({7});
  Adam adam({a, b, never}, {.lr = 0.1});
  adam.step();
  b.set_grad({});
  const double before = b.item();
  adam.step();
  CHECK(b.item() == before);
  CHECK(never.item() == 7);
  const StateDict state = adam.state_dict();
  CHECK(state.value<std::int64_t>("0.0.step") == 2);
  CHECK(state.value<std::int64_t>("0.1.step") == 1);
  CHECK(state.value<std::int64_t>("0.2.step") == 0);
  CHECK_FALSE(state.contains("0.2.exp_avg"));
}

TEST_CASE("gradients of any layout", "[optim]") {
  Tensor p = from_vector(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}, {.requires_grad = true});
  SGD sgd({p}, {.lr = 1});
  p.set_grad(from_vector(std::vector<float>{1, 4, 2, 5, 3, 6}, {3, 2}).t());
  sgd.step();
  CHECK(p.to_vector<float>() == std::vector<float>{0, 0, 0, 0, 0, 0});
  p.set_grad(ones({}).expand({2, 3}));
  sgd.step();
  CHECK(p.to_vector<float>() == std::vector<float>{-1, -1, -1, -1, -1, -1});
  sgd.zero_grad(false);
  CHECK(p.grad().to_vector<float>() == std::vector<float>(6));
}

TEST_CASE("zero_grad forgets or fills", "[optim]") {
  Tensor p = with_grad(parameter({1, 2}), {3, 4}), q = parameter({1});
  SGD sgd({p, q});
  const Tensor grad = p.grad();
  sgd.zero_grad(false);
  CHECK(p.grad().is_same(grad));
  CHECK(grad.to_vector<float>() == std::vector<float>{0, 0});
  CHECK_FALSE(q.grad().defined());
  sgd.zero_grad();
  CHECK_FALSE(p.grad().defined());
}

TEST_CASE("a step that a later backward needs the old values of is caught", "[optim]") {
  Tensor p = parameter({1, 2});
  SGD sgd({p});
  const Tensor y = square(p);
  y.backward(ones({2}), true);
  sgd.step();
  CHECK_THROWS_AS(y.backward(ones({2})), AutogradError);
  p.set_grad({});
  square(p).backward(ones({2}));  // and the next forward is fine
  CHECK(p.grad().defined());
}

TEST_CASE("a step records nothing", "[optim]") {
  Tensor p = with_grad(parameter({1}), {1});
  Adam adam({p});
  adam.step();
  CHECK(p.is_leaf());
  CHECK(p.requires_grad());
  CHECK(grad_enabled());
  CHECK_FALSE(adam.state_dict().at("0.0.exp_avg").requires_grad());
}

TEST_CASE("any number of threads gives the same bits", "[optim]") {
  const int before = num_threads();
  std::vector<std::string> bits;
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    std::vector<Tensor> params = {optim_initial({100, 700}, 0, f32), optim_initial({3}, 1, f32),
                                  optim_initial({50001}, 2, f32)};
    Adam adam(params, {.lr = 0.01});
    std::string all;
    for (int t = 1; t <= 3; ++t) {
      for (Tensor& p : params) p.set_grad(optim_gradient(p.shape(), 0, t, f32));
      all += bytes_of(clip_grad_norm_(params, 1));
      adam.step();
    }
    for (const Tensor& p : params) all += bytes_of(p);
    bits.push_back(all);
  }
  set_num_threads(before);
  for (const std::string& b : bits) CHECK(b == bits[0]);
}

TEST_CASE("options out of range", "[optim]") {
  const Tensor p = parameter({1});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(SGD({p}, {.lr = -0.1}), ValueError);
  CHECK_THROWS_AS(SGD({p}, {.lr = nan}), ValueError);
  CHECK_THROWS_AS(SGD({p}, {.momentum = -0.1}), ValueError);
  CHECK_THROWS_AS(SGD({p}, {.weight_decay = -0.1}), ValueError);
  CHECK_THROWS_AS(SGD({p}, {.momentum = 0.9, .dampening = nan}), ValueError);
  CHECK_THROWS_AS(SGD({p}, {.nesterov = true}), ValueError);
  CHECK_THROWS_AS(SGD({p}, {.momentum = 0.5, .dampening = 0.1, .nesterov = true}), ValueError);
  CHECK_THROWS_AS(Adam({p}, {.lr = -1}), ValueError);
  CHECK_THROWS_AS(Adam({p}, {.beta1 = 1}), ValueError);
  CHECK_THROWS_AS(Adam({p}, {.beta2 = -0.1}), ValueError);
  CHECK_THROWS_AS(Adam({p}, {.eps = -1e-8}), ValueError);
  CHECK_THROWS_AS(AdamW({p}, {.weight_decay = nan}), ValueError);
  CHECK_THROWS_AS(RMSprop({p}, {.lr = -1}), ValueError);
  CHECK_THROWS_AS(RMSprop({p}, {.alpha = 1.5}), ValueError);
  CHECK_THROWS_AS(RMSprop({p}, {.momentum = nan}), ValueError);
  CHECK_THROWS_AS(Adagrad({p}, {.lr_decay = -1}), ValueError);
  CHECK_THROWS_AS(Adagrad({p}, {.initial_accumulator_value = -1}), ValueError);
  CHECK_THROWS_AS(Lion({p}, {.beta2 = 1}), ValueError);
  CHECK_THROWS_AS(Lion({p}, {.weight_decay = -1}), ValueError);
  check_mentions(message_of([&] { AdamW({p}, {.beta1 = 1.5}); }), {"[AdamW]", "beta1", "1.5"});
  SGD sgd({p});
  CHECK_THROWS_AS(sgd.set_lr(-1), ValueError);
  CHECK_THROWS_AS(sgd.set_lr(1, 1), IndexError);
  CHECK_THROWS_AS(sgd.lr(-1), IndexError);
  CHECK_THROWS_AS(sgd.options(3), IndexError);
}

TEST_CASE("parameters that can't be optimized", "[optim]") {
  const Tensor p = parameter({1, 2, 3, 4});
  CHECK_THROWS_AS(SGD(std::vector<Tensor>{}), ValueError);
  CHECK_THROWS_AS(SGD({Tensor{}}), ValueError);
  CHECK_NOTHROW(SGD({ones({2})}));  // frozen
  check_mentions(message_of([&] { SGD({square(p)}); }), {"[SGD]", "parameter 0", "leaf"});
  check_mentions(message_of([&] { SGD({p, p}); }), {"parameter 1", "twice"});
  SGD sgd({p});
  CHECK_THROWS_AS(sgd.add_param_group({{p}, {}}), ValueError);
  CHECK(sgd.group_count() == 1);
  CHECK_THROWS_AS(SGD({ones({2, 3}).t().set_requires_grad()}), ValueError);
}

TEST_CASE("a gradient that does not fit is refused before any change", "[optim]") {
  Tensor a = with_grad(parameter({1}), {1}), b = with_grad(parameter({1, 2}), {1, 1});
  Adam adam({a, b});
  Tensor& grad = detail::leaf_meta(*b.impl()).grad;  // set_grad() would not let it pass
  grad = zeros({3});
  CHECK_THROWS_AS(adam.step(), ShapeError);
  check_mentions(message_of([&] { adam.step(); }), {"[Adam]", "parameter 1 of group 0", "f32[3]", "f32[2]"});
  grad = zeros({2}, {.dtype = f64});
  CHECK_THROWS_AS(adam.step(), DTypeError);
  CHECK(a.item() == 1);
  CHECK(adam.state_dict().value<std::int64_t>("0.0.step") == 0);
}

TEST_CASE("running out of memory in the first step changes nothing", "[optim]") {
  Tensor a = with_grad(parameter({1}), {1}), b = with_grad(parameter({1, 2}), {1, 1});
  Adam adam({a, b});
  int failures = 0;
  for (std::int64_t n = 1;; ++n) {
    const auto failing = std::make_shared<FailingAllocator>(allocator(cpu), n);
    const AllocatorGuard guard(cpu, failing);
    try {
      adam.step();
    } catch (const OutOfMemoryError&) {
      ++failures;
      CHECK(a.item() == 1);
      CHECK(adam.state_dict().value<std::int64_t>("0.0.step") == 0);
      continue;
    }
    break;
  }
  CHECK(failures == 3);  // of four moments; those of an attempt stay for the next
  CHECK(a.item() == Approx(0.999));
}

namespace {

// An optimizer of a user's own, made of tensor operations: p <- p - lr sign(g), with a running sum of signs.
class SignDescent final : public Optimizer {
 public:
  SignDescent(std::vector<Tensor> params, double lr) : Optimizer("SignDescent") {
    add_group(std::move(params), lr);
  }

 private:
  int moment_count(int) const override { return 1; }
  const char* moment_name(int) const override { return "signs"; }
  void update(int group, std::span<const int> members) override {
    Group& g = group_at(group);
    for (const int i : members) {
      const auto at = static_cast<std::size_t>(i);
      const Tensor direction = sign(g.grads[at]);
      g.states[at].moments[0].add_(direction);
      g.params[at].sub_(direction.to_vector<double>()[0] * g.lr);
    }
  }
};

}  // namespace

TEST_CASE("an optimizer of one's own", "[optim]") {
  Tensor p = with_grad(parameter({1}), {-3});
  SignDescent optimizer({p}, 0.25);
  optimizer.step();
  optimizer.step();
  CHECK(p.item() == 1.5);
  CHECK(optimizer.state_dict().at("0.0.signs").item() == -2);
}
