#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <cotangent/core/op/op_def.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/nn/activation.h>
#include <cotangent/nn/attention.h>
#include <cotangent/nn/container.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/loss.h>
#include <cotangent/nn/module.h>
#include <cotangent/nn/recurrent.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/reduce/reduce.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"
#include "tests/optim_testing.h"

using namespace ct;

namespace {

// Doubles, so that every step of a chain is seen in the result.
struct Twice : nn::Module {
  Tensor forward(const Tensor& x) const { return 2 * x; }
  Tensor operator()(const Tensor& x) const { return nn::call(*this, x); }
};
// Has no operator() of its own.
struct Plain : nn::Module {
  nn::Linear fc = add("fc", nn::Linear(2, 2, {.bias = false}));
  Tensor forward(const Tensor& x) const { return fc(x); }
};

// A Linear that is none.
struct Negated : nn::Linear {
  Negated() : nn::Linear(3, 2) {}
  Tensor forward(const Tensor& x) const { return -nn::Linear::forward(x); }
  Tensor operator()(const Tensor& x) const { return nn::call(*this, x); }
};
// Names of the forward calls, one after the other.
struct Names final : Tracer {
  std::string list;
  bool begin(const KernelCall& call) override {
    if (call.forward) list.append(list.empty() ? "" : " ").append(call.op.name);
    return false;
  }
  void end(const KernelCall&) override {}
};

std::string calls_of(const nn::Sequential& net, const Tensor& x) {
  Names names;
  const TracerScope scope(names);
  net(x);
  return names.list;
}

double first(const Tensor& x) { return x.flatten().select(0, 0).item(); }

}  // namespace

TEST_CASE("forward hooks see and change what goes in and out", "[nn][hooks]") {
  Twice twice;
  std::vector<double> seen;
  nn::HookHandle pre = twice.register_forward_pre_hook([&](const nn::Module& m, const Tensor& x) {
    CHECK(m.is_same(twice));
    seen.push_back(first(x));
  });
  nn::HookHandle watch =
      twice.register_forward_hook([&](const nn::Module&, const Tensor& x, const Tensor& y) {
        seen.push_back(first(x));
        seen.push_back(first(y));
      });
  CHECK(first(twice(ones({1}))) == 2);
  CHECK(seen == std::vector<double>{1, 1, 2});

  // A hook's result replaces its argument; the next hook gets that.
  nn::HookHandle more =
      twice.register_forward_pre_hook([](const nn::Module&, const Tensor& x) -> Tensor { return x + 10; });
  twice.register_forward_hook(
      [](const nn::Module&, const Tensor& x, const Tensor& y) -> Tensor { return y - x; });
  twice.register_forward_hook([](const nn::Module&, const Tensor&, const Tensor& y) -> Tensor { return -y; });
  seen.clear();
  CHECK(first(twice(ones({1}))) == -11);
  CHECK(seen == std::vector<double>{1, 11, 22});
  // Not in forward(), in every handle, not in a clone.
  CHECK(first(twice.forward(ones({1}))) == 2);
  const Twice other = twice;
  CHECK(first(other(ones({1}))) == -11);
  CHECK(first(nn::clone(twice)(ones({1}))) == 2);

  more.remove();
  more.remove();
  pre.remove();
  watch.remove();
  seen.clear();
  CHECK(first(twice(ones({1}))) == -1);
  CHECK(seen.empty());
  CHECK_THROWS_AS(twice.register_forward_hook(nn::ForwardHook()), ValueError);
  CHECK_THROWS_AS(twice.register_forward_pre_hook(nn::ForwardPreHook()), ValueError);
}

TEST_CASE("a hook may remove itself, and outlives its module", "[nn][hooks]") {
  nn::HookHandle handle;
  handle.remove();  // of nothing
  int calls = 0;
  {
    Twice twice;
    handle = twice.register_forward_hook([&](const nn::Module&, const Tensor&, const Tensor&) {
      ++calls;
      handle.remove();
    });
    twice(ones({1}));
    twice(ones({1}));
    CHECK(calls == 1);
    handle = twice.register_forward_hook([&](const nn::Module&, const Tensor&, const Tensor&) { ++calls; });
    twice(ones({1}));
  }
  CHECK(calls == 2);
  handle.remove();
}

TEST_CASE("Sequential runs a Linear and a ReLU one by one on the CPU", "[nn][hooks]") {
  CHECK(calls_of(nn::Sequential(nn::Linear(3, 2), nn::ReLU()), ones({4, 3})) == "linear relu");
}

TEST_CASE("on a GPU they are one op, unless somebody looks in between", "[nn][hooks][cuda]") {
  const Device gpu = cuda(0);
  const Tensor x = randn({4, 3}).to(gpu);
  const nn::Linear linear(3, 2, {.device = gpu});
  const nn::ReLU relu_layer;
  const nn::Sequential net(linear, relu_layer, nn::ReLU(), nn::Linear(2, 2, {.bias = false, .device = gpu}),
                           nn::ReLU(), nn::Linear(2, 1, {.device = gpu}));
  CHECK(calls_of(net, x) == "linear_relu relu linear_relu linear");
  Negated negated;
  negated.to(gpu);
  CHECK(calls_of(nn::Sequential(negated, nn::ReLU()), x) == "linear neg relu");

  const auto gradients = [&] {
    for (const Tensor& p : net.parameters()) Tensor(p).set_grad({});
    const Tensor y = net(x);
    sum(y).backward();
    std::vector<double> all = y.detach().flatten().to_vector<double>();
    for (const Tensor& p : net.parameters())
      for (const double v : p.grad().flatten().to_vector<double>()) all.push_back(v);
    return all;
  };
  const std::vector<double> fused = gradients();
  for (nn::Module module : {nn::Module(linear), nn::Module(relu_layer)}) {
    int seen = 0;
    nn::HookHandle hook =
        module.register_forward_hook([&](const nn::Module&, const Tensor&, const Tensor&) { ++seen; });
    CHECK(calls_of(net, x) == "linear relu relu linear_relu linear");
    CHECK(seen == 1);
    const std::vector<double> apart = gradients();
    hook.remove();
    REQUIRE(apart.size() == fused.size());
    for (std::size_t i = 0; i < apart.size(); ++i) CHECK(fused[i] == Approx(apart[i]).margin(1e-6));
  }
}

TEST_CASE("hooks of layers run in whatever calls them", "[nn][hooks]") {
  int calls = 0;
  const auto count = [&](nn::Module& m) {
    m.register_forward_hook([&](const nn::Module&, const Tensor&, const Tensor&) { ++calls; });
  };
  nn::Sequential net(nn::Linear(2, 3), nn::Tanh(), nn::Linear(3, 2), Twice(), ct::relu);
  net.apply(count);
  net(ones({1, 2}));
  CHECK(calls == 6);  // five and the whole
  calls = 0;
  net.forward(ones({1, 2}));
  CHECK(calls == 5);

  // In a struct with a forward() alone, by its parts, by nn::call() and in a Sequential.
  calls = 0;
  Plain plain;
  plain.apply(count);
  plain.forward(ones({1, 2}));
  CHECK(calls == 1);
  nn::call(plain, ones({1, 2}));
  CHECK(calls == 3);
  const nn::Sequential around(plain);
  around(ones({1, 2}));
  CHECK(calls == 5);

  // Modules of several inputs show the first.
  calls = 0;
  nn::MSELoss loss;
  count(loss);
  CHECK(loss(ones({2}), zeros({2})).item() == 1);
  nn::MultiheadAttention attention(4, 2);
  attention.register_forward_pre_hook(
      [](const nn::Module&, const Tensor& query) -> Tensor { return 0 * query; });
  const Tensor x = ones({3, 1, 4}), y = attention(x, x, x);
  CHECK(calls == 1);
  CHECK(ct::testing::bytes_of(y.select(0, 0)) == ct::testing::bytes_of(y.select(0, 2)));
}

TEST_CASE("Callable: a struct of one's own is called as a layer is", "[nn][hooks]") {
  struct Pair {
    Tensor sum, product;
  };
  struct Plus : nn::Callable<Plus> {
    nn::Linear fc = add("fc", nn::Linear(2, 2));
    Tensor forward(const Tensor& x) const { return x + 1; }
  };
  struct Both : nn::Callable<Both> {
    Pair forward(const Tensor& a, const Tensor& b) const { return {a + b, a * b}; }
  };
  struct Several : nn::Callable<Several> {
    std::tuple<int, Tensor> forward(int n, const Tensor& x, std::string unit = "m") const {
      return {n + static_cast<int>(unit.size()), n * x};
    }
    std::vector<Tensor> forward(const std::vector<Tensor>& all) const { return all; }
  };
  struct Counting : nn::Callable<Counting> {
    int calls = 0;
    int forward(int add) { return calls += add; }
    void forward() const {}
    std::unique_ptr<int> forward(std::unique_ptr<int> moved) const { return moved; }
  };
  const Tensor one = ones({1});
  Plus plus;
  const Plus& constant = plus;
  CHECK(first(plus(one)) == 2);
  CHECK(first(constant(one)) == 2);
  CHECK(first(nn::Sequential(plus, Plus())(one)) == 3);
  const Both both;
  const Several several;
  Counting counting;
  CHECK(first(both(one, 3 * one).sum) == 4);
  CHECK(std::get<0>(several(2, one)) == 3);
  CHECK(std::get<0>(several(2, one, "km")) == 4);
  CHECK(counting(2) == 2);
  CHECK(counting(3) == 5);
  counting();
  CHECK(*counting(std::make_unique<int>(4)) == 4);

  // Hooks see the first tensor of either, and what they give takes its place.
  int seen = 0;
  const auto tenfold = [&](const nn::Module&, const Tensor& x) -> Tensor { return ++seen, 10 * x; };
  const auto negative = [&](const nn::Module&, const Tensor&, const Tensor& y) -> Tensor {
    return ++seen, -y;
  };
  const auto hook = [&](nn::Module m) {
    m.register_forward_pre_hook(tenfold);
    m.register_forward_hook(negative);
  };
  hook(plus), hook(both), hook(several);
  CHECK(first(plus(one)) == -11);
  const Pair pair = both(one, 3 * one);
  CHECK(first(pair.sum) == -13);
  CHECK(first(pair.product) == 30);
  CHECK(first(std::get<1>(several(2, one))) == -20);
  CHECK(seen == 6);
  nn::Linear layer(1, 1);
  nn::LSTM lstm(1, 1);
  hook(lstm);
  lstm(ones({2, 1, 1}));
  nn::Bilinear bilinear(1, 1, 1);
  hook(bilinear);
  bilinear(one, one);
  CHECK(seen == 10);

  // Where there is no tensor, they see none and can't give one.
  counting.register_forward_pre_hook([&](const nn::Module&, const Tensor& x) { seen += !x.defined(); });
  nn::HookHandle giving = counting.register_forward_hook(
      [&](const nn::Module&, const Tensor&, const Tensor& y) { return ++seen, y; });
  CHECK(counting(1) == 6);
  CHECK(*counting(std::make_unique<int>(4)) == 4);
  CHECK(seen == 14);
  giving.remove();
  counting.register_forward_hook(
      [&](const nn::Module&, const Tensor&, const Tensor&) -> Tensor { return one; });
  ct::testing::check_mentions(ct::testing::message_of([&] { counting(1); }),
                              {"[module]", "forward hook of a Counting gave", "; give"});
}

TEST_CASE("gradients flow through what hooks put in place", "[nn][hooks]") {
  Twice twice;
  twice.register_forward_hook(
      [](const nn::Module&, const Tensor&, const Tensor& y) -> Tensor { return y * y; });
  const Tensor x = ct::testing::tensor_of<float>({2}, {3, -1});
  Tensor leaf = x.clone().set_requires_grad();
  twice(leaf).sum().backward();
  CHECK(leaf.grad().to_vector<float>() == std::vector<float>{24, -8});  // d (2x)^2 = 8x
}

TEST_CASE("ModuleDict: modules by name", "[nn]") {
  struct Net : nn::Module {
    nn::ModuleDict<> choices =
        add("choices", nn::ModuleDict<>{{"linear", nn::Linear(2, 2)}, {"tanh", nn::Tanh()}});
    Tensor forward(const Tensor& x) const { return choices["tanh"](choices["linear"](x)); }
  };
  Net net;
  CHECK(net.choices.size() == 2);
  CHECK(net.choices.contains("tanh"));
  CHECK_FALSE(net.choices.contains("relu"));
  CHECK_THROWS_AS(net.choices["relu"], ValueError);
  CHECK(net.named_parameters()[0].name == "choices.linear.weight");
  std::vector<std::string> names;
  for (const auto& [name, module] : net.choices) names.push_back(name);
  CHECK(names == std::vector<std::string>{"linear", "tanh"});
  CHECK_THROWS_AS(net.choices.insert("a.b", nn::ReLU()), ValueError);
  CHECK_THROWS_AS(net.choices.insert("", nn::ReLU()), ValueError);
  CHECK(net.choices.size() == 2);

  // In place of another, for every path to it.
  net.choices.insert("linear", nn::Linear(2, 5));
  CHECK(net.num_parameters() == 15);
  CHECK(net.forward(ones({1, 2})).shape() == Shape{1, 5});
  const Net copy = nn::clone(net);
  CHECK(copy.num_parameters() == 15);
  CHECK_FALSE(copy.parameters()[0].is_same(net.parameters()[0]));
  CHECK(copy.forward(ones({1, 2})).to_vector<float>() == net.forward(ones({1, 2})).to_vector<float>());
  CHECK(nn::to_string(nn::ModuleDict<>{{"act", nn::ReLU()}}) == "ModuleDict(\n  (act): ReLU()\n)");

  // Modules of one type, which is kept.
  nn::ModuleDict<nn::Linear> same{{"a", nn::Linear(1, 2)}, {"b", nn::Linear(2, 3)}};
  CHECK(same["b"].out_features() == 3);
  same.insert("a", nn::Linear(1, 7));
  CHECK(same["a"].out_features() == 7);
  CHECK(same.num_parameters() == 14 + 9);
}

TEST_CASE("ParameterList, freezing, and layers that are replaced", "[nn]") {
  struct Polynomial : nn::Module {
    nn::ParameterList coefficients = add("c", nn::ParameterList{ct::full({}, 3.0), ct::full({}, 2.0)});
    Tensor forward(const Tensor& x) const { return coefficients[0] + coefficients[1] * x; }
  };
  Polynomial p;
  p.coefficients.append(zeros({2}));
  CHECK(p.coefficients.size() == 3);
  CHECK(p.named_parameters()[1].name == "c.1");
  CHECK(p.forward(full({}, 5.0)).item() == 13);
  CHECK_THROWS_AS(p.coefficients[3], IndexError);
  CHECK_THROWS_AS(p.coefficients.append(zeros({1}, {.dtype = i64})), DTypeError);
  std::int64_t count = 0;
  for (const nn::Parameter& c : p.coefficients) count += c->numel();
  CHECK(count == 4);
  const Polynomial copy = nn::clone(p);
  CHECK_FALSE(copy.coefficients[0].is_same(p.coefficients[0]));

  const std::vector<Tensor> tensors = {ones({2}), zeros({3})};
  const nn::ParameterList list(tensors);
  CHECK(list.size() == 2);
  CHECK(list[1].is_same(tensors[1]));
  CHECK(list.num_parameters() == 5);
  CHECK_THROWS_AS(nn::ParameterList(std::vector<Tensor>{zeros({1}, {.dtype = i64})}), DTypeError);

  p.coefficients.requires_grad_(false);
  CHECK(p.num_parameters(true) == 0);
  CHECK_FALSE(p.forward(ones({})).requires_grad());
  p.requires_grad_();
  CHECK(p.num_parameters(true) == 4);
}
