#include <cotangent/nn/functional_call.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/autograd/recompute.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/nn/activation.h>
#include <cotangent/nn/container.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/normalization.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/linear/linear.h>
#include <cotangent/ops/loss/element/mse_loss.h>
#include <cotangent/ops/reduce/reduce.h>

#include "tests/catch.h"
#include "tests/optim_testing.h"

using namespace ct;
using ct::testing::bytes_of;
using ct::testing::check_mentions;
using ct::testing::message_of;

namespace {

using Weights = std::vector<nn::Named<Tensor>>;

struct WeightedMlp : nn::Callable<WeightedMlp> {
  nn::Linear in = add("in", nn::Linear(2, 3, {.dtype = f64}));
  nn::Linear out = add("out", nn::Linear(3, 1, {.dtype = f64}));
  Tensor forward(const Tensor& x) const { return out(ct::tanh(in(x))); }
};

Weights scaled_weights(const nn::Module& module, double factor) {
  Weights list = module.named_parameters();
  for (auto& [name, tensor] : list) tensor = factor * tensor;
  return list;
}

/// The loss on the second task after a step on the first one.
Tensor maml_loss(const WeightedMlp& net, const Tensor& x, const Tensor& t) {
  Weights fast = net.named_parameters();
  const std::vector<Tensor> grads = grad(mse_loss(net(x[0]), t[0]), net.parameters(), {.create_graph = true});
  for (std::size_t i = 0; i < fast.size(); ++i) fast[i].value = fast[i].value - 0.3 * grads[i];
  return mse_loss(nn::functional_call(net, fast, x[1]), t[1]);
}

}  // namespace

TEST_CASE("functional_call: a step of MAML, by differences", "[nn][functional_call]") {
  manual_seed(7);
  WeightedMlp net;
  const Tensor x = randn({2, 5, 2}, {.dtype = f64}), t = randn({2, 5, 1}, {.dtype = f64});
  const std::string before = bytes_of(net.in.weight());
  maml_loss(net, x, t).backward();
  CHECK(bytes_of(net.in.weight()) == before);
  const double h = 1e-6;
  for (Tensor p : net.parameters()) {
    const std::vector<double> exact = p.grad().to_vector<double>();
    for (std::int64_t i = 0; i < p.numel(); ++i) {
      Tensor element = p.detach().view({-1})[i];
      const double value = element.item();
      element.fill_(value + h);
      const double more = maml_loss(net, x, t).item();
      element.fill_(value - h);
      const double less = maml_loss(net, x, t).item();
      element.fill_(value);
      CHECK(exact[static_cast<std::size_t>(i)] == Approx((more - less) / (2 * h)).epsilon(1e-6).margin(1e-8));
    }
  }
}

TEST_CASE("functional_call: parameters that another network computes", "[nn][functional_call]") {
  manual_seed(3);
  const WeightedMlp net;
  const nn::Linear hyper(1, 3 * 2, {.dtype = f64});
  const Tensor x = randn({4, 2}, {.dtype = f64}), code = ones({1}, {.dtype = f64});
  const Tensor weight = hyper(code).view({3, 2});
  const Tensor y = nn::functional_call(net, {{"in.weight", weight}}, x);
  const Tensor same = net.out(ct::tanh(ct::linear(x, weight, net.in.bias())));
  CHECK(bytes_of(y) == bytes_of(same));
  sum(y).backward();
  CHECK(hyper.weight()->grad().defined());
  CHECK(net.in.bias()->grad().defined());  // not given: the module's own
  CHECK_FALSE(net.in.weight()->grad().defined());
  const Tensor direct =
      grad(sum(net.out(ct::tanh(ct::linear(x, hyper(code).view({3, 2}), net.in.bias())))), hyper.weight());
  CHECK(bytes_of(direct) == bytes_of(hyper.weight()->grad()));
  // A StateDict names tensors, too, and so does a struct without an operator().
  CHECK(bytes_of(nn::functional_call(net, StateDict{{"in.weight", weight}}, x)) == bytes_of(y));
  CHECK(bytes_of(nn::functional_call(net, Weights(), x)) == bytes_of(net(x)));
}

TEST_CASE("functional_call: the module is as it was, also after an exception", "[nn][functional_call]") {
  struct Thrower : nn::Module {
    nn::Parameter w = parameter("w", ct::ones({2}));
    Tensor forward(const Tensor& x, bool fails) const {
      if (fails) throw std::runtime_error("no");
      return w * x;
    }
  };
  Thrower net;
  const Tensor own = net.w.tensor(), x = ct::ones({2});
  const Weights two = {{"w", ct::full({2}, 2)}};
  CHECK_THROWS_AS(nn::functional_call(net, two, x, true), std::runtime_error);
  CHECK(net.w.is_same(own));
  CHECK(nn::functional_call(net, two, x, false).to_vector<float>() == std::vector<float>{2, 2});
  CHECK(net.forward(x, false).to_vector<float>() == std::vector<float>{1, 1});
  CHECK(net.parameters()[0].is_same(own));
  // A lookup by name meanwhile gives the tensors of the call; a call within a call adds to them.
  struct Outer : nn::Module {
    Thrower inner = add("inner", Thrower());
    nn::Parameter v = parameter("v", ct::ones({2}));
    Tensor forward(const Tensor& x) const {
      CHECK(get("v").is_same(v));
      CHECK(named_parameters()[0].value.is_same(v));
      CHECK(member("v")->tensor.is_same(v));
      const Tensor y = nn::functional_call(inner, {{"w", ct::full({2}, 5)}}, x, false);
      return inner.forward(y, false) * v;
    }
  };
  const Outer outer;
  const Weights list = {{"v", ct::full({2}, 3)}, {"inner.w", ct::full({2}, 2)}};
  CHECK(nn::functional_call(outer, list, x).to_vector<float>() == std::vector<float>{30, 30});
  CHECK(outer.forward(x).to_vector<float>() == std::vector<float>{5, 5});
}

TEST_CASE("functional_call: what does not fit is refused by name", "[nn][functional_call]") {
  const WeightedMlp net;
  const Tensor x = ct::ones({1, 2}, {.dtype = f64});
  const auto text = [&](const Weights& list) {
    return message_of([&] { nn::functional_call(net, list, x); });
  };
  check_mentions(text({{"in.wieght", x}}),
                 {"[functional_call]", "'in.wieght'", "nearest of its names are 'in.weight', 'in.bias'"});
  check_mentions(text({{"in.weight", ct::ones({2, 3}, {.dtype = f64})}}),
                 {"'in.weight' is f64[3, 2]", "f64[2, 3]", "; their shapes"});
  check_mentions(text({{"out.bias", Tensor()}}), {"an undefined tensor for 'out.bias'", "; leave"});
  CHECK_THROWS_AS(nn::functional_call(net, {{"in", x}}, x), ValueError);
  CHECK_THROWS_AS(nn::functional_call(net, {{"in.weight", x}}, x), ShapeError);
  // A bias that is none has no name.
  CHECK_THROWS_AS(
      nn::functional_call(nn::Linear(2, 2, {.bias = false}), {{"bias", ct::ones({2})}}, ct::ones({2})),
      ValueError);
  // A refused call is forgotten whole.
  CHECK_THROWS_AS(nn::functional_call(net, {{"in.bias", ct::ones({3}, {.dtype = f64})}, {"x", x}}, x),
                  ValueError);
  CHECK(bytes_of(net(x)) == bytes_of(nn::functional_call(net, Weights(), x)));
}

TEST_CASE("functional_call: tied tensors are replaced under every name", "[nn][functional_call]") {
  struct Tied : nn::Module {
    nn::Linear a = add("a", nn::Linear(2, 2, {.bias = false}));
    nn::Linear b = add("b", nn::Linear(2, 2, {.bias = false}));
    nn::Linear again = add("again", a);
    nn::Parameter c = parameter("c", ct::zeros({2, 2}));
    Tied() {
      b.weight().replace(a.weight());
      c = a.weight();
    }
    Tensor forward(const Tensor& x) const { return ct::linear(again(b(a(x))), c); }
  };
  const Tied net;
  const Tensor twice = 2 * ct::eye(2), x = ct::ones({1, 2});
  for (const char* name : {"a.weight", "b.weight", "again.weight", "c"})
    CHECK(nn::functional_call(net, {{name, twice}}, x).to_vector<float>() == std::vector<float>{16, 16});
  CHECK(nn::functional_call(net, {{"a.weight", twice}, {"b.weight", twice}}, x).to_vector<float>()[0] == 16);
  check_mentions(message_of([&] {
                   nn::functional_call(net, {{"a.weight", twice}, {"b.weight", 3 * twice}}, x);
                 }),
                 {"two tensors for one", "'b.weight'"});
}

TEST_CASE("functional_call: buffers that a pass writes", "[nn][functional_call]") {
  manual_seed(1);
  nn::Sequential net(nn::Linear(2, 3), nn::BatchNorm1d(3));
  const Tensor x = randn({8, 2});
  const std::string mean = bytes_of(net.get("1.running_mean"));
  Weights state;
  for (const auto& [name, tensor] : net.state_dict()) state.push_back({name, tensor.clone()});
  const Tensor y = nn::functional_call(net, state, x);
  CHECK(bytes_of(net.get("1.running_mean")) == mean);
  const auto given = [&](const std::string& path) {
    for (const auto& [name, tensor] : state)
      if (name == path) return tensor;
    return Tensor();
  };
  CHECK(bytes_of(given("1.running_mean")) != mean);
  CHECK(bytes_of(net(x)) == bytes_of(y));
  CHECK(bytes_of(net.get("1.running_mean")) == bytes_of(given("1.running_mean")));
  CHECK(bytes_of(net.get("1.num_batches_tracked")) == bytes_of(given("1.num_batches_tracked")));
  // Tensors that are not given are the module's, as ever.
  nn::functional_call(net, scaled_weights(net, 2), x);
  CHECK(bytes_of(net.get("1.running_mean")) != bytes_of(given("1.running_mean")));
}

TEST_CASE("functional_call: recomputed passes take the same tensors", "[nn][functional_call]") {
  struct Saving : nn::Module {
    WeightedMlp mlp = add("mlp", WeightedMlp());
    bool recomputes = false;
    Tensor forward(const Tensor& x) const {
      const auto part = [mlp = mlp](const Tensor& h) { return mlp(h); };
      return recomputes ? ct::recompute(part, x) : part(x);
    }
  };
  Saving net;
  const Tensor x = randn({4, 2}, {.dtype = f64});
  std::vector<Tensor> plain;
  for (const bool recomputes : {false, true}) {
    net.recomputes = recomputes;
    Weights list = scaled_weights(net, 2);
    for (auto& [name, tensor] : list) tensor = tensor.detach().set_requires_grad();
    sum(nn::functional_call(net, list, x)).backward();
    for (std::size_t i = 0; i < list.size(); ++i) {
      REQUIRE(list[i].value.grad().defined());
      if (recomputes)
        CHECK(bytes_of(list[i].value.grad()) == bytes_of(plain[i]));
      else
        plain.push_back(list[i].value.grad());
    }
    for (const Tensor& p : net.parameters()) CHECK_FALSE(p.grad().defined());
  }
}

TEST_CASE("functional_call: threads have tensors of their own", "[nn][functional_call]") {
  const WeightedMlp net;
  const Tensor x = randn({4, 2}, {.dtype = f64});
  constexpr int kThreads = 4;
  std::vector<std::string> alone(kThreads + 1), together(kThreads + 1);
  const auto run = [&](int k) { return bytes_of(nn::functional_call(net, scaled_weights(net, k), x)); };
  for (int k = 0; k <= kThreads; ++k) alone[static_cast<std::size_t>(k)] = k == 0 ? bytes_of(net(x)) : run(k);
  std::vector<std::thread> threads;
  for (int k = 0; k <= kThreads; ++k)
    threads.emplace_back([&, k] {
      for (int i = 0; i < 50; ++i) together[static_cast<std::size_t>(k)] = k == 0 ? bytes_of(net(x)) : run(k);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(alone == together);
}
