#include <cotangent/nn/module.h>

#include <sstream>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/nn/container.h>
#include <cotangent/nn/linear.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/testing/allocators.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::bytes_of;
using ct::testing::tensor_of;

namespace {

struct Mlp : nn::Module {
  nn::Linear in = add("in", nn::Linear(4, 3));
  nn::Linear out = add("out", nn::Linear(3, 2, {.bias = false}));
  nn::Parameter scale = parameter("scale", ct::ones({2}));
  nn::Buffer calls = buffer("calls", ct::zeros({}, {.dtype = i64}));
  Tensor forward(const Tensor& x) const { return scale.tensor() * out(relu(in(x))); }
};

std::vector<std::string> names_of(const std::vector<nn::Named<Tensor>>& list) {
  std::vector<std::string> names;
  for (const auto& entry : list) names.push_back(entry.name);
  return names;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

Tensor input() { return tensor_of<float>({2, 4}, {1, -2, 3, -4, 0.5, 0.25, -1, 2}); }

}  // namespace

TEST_CASE("Module: names in the order of registration", "[nn]") {
  Mlp model;
  CHECK(names_of(model.named_parameters()) ==
        std::vector<std::string>{"scale", "in.weight", "in.bias", "out.weight"});
  CHECK(names_of(model.named_buffers()) == std::vector<std::string>{"calls"});
  std::vector<std::string> modules;
  for (const auto& m : model.named_modules()) modules.push_back(m.name);
  CHECK(modules == std::vector<std::string>{"", "in", "out"});
  CHECK(model.num_parameters() == 2 + 12 + 3 + 6);
  CHECK(model.parameters()[1].is_same(model.in.weight()));
  CHECK(model.parameters()[1].requires_grad());
  CHECK(model.get("in.bias").is_same(model.in.bias()));
  CHECK(model.child("in").is_same(model.in));
  CHECK_FALSE(model.buffers()[0].requires_grad());
  CHECK_THROWS_AS(model.get("in.nothing"), ValueError);
  CHECK_THROWS_AS(model.get("nothing.weight"), ValueError);

  std::ostringstream text;
  text << model;
  CHECK(text.str() ==
        "Mlp(\n  (in): Linear(in=4, out=3, bias=true)\n  (out): Linear(in=3, out=2, bias=false)\n)");
}

TEST_CASE("Module: a copy is a second handle to the same module", "[nn]") {
  Mlp model;
  Mlp copy = model;
  CHECK(copy.is_same(model));
  CHECK(copy.in.weight()->is_same(model.in.weight()));
  CHECK(copy.scale->is_same(model.scale));
  copy.eval();
  CHECK_FALSE(model.in.is_training());
  copy.to(f64);
  CHECK(model.in.weight()->dtype() == f64);
  CHECK(model.forward(input().to(f64)).dtype() == f64);

  Mlp other;
  other = model;
  CHECK(other.parameters()[3].is_same(model.out.weight()));

  Mlp moved = std::move(copy);
  CHECK(moved.is_same(model));
  CHECK(moved.forward(input().to(f64)).shape() == Shape{2, 2});
  CHECK_THROWS_AS(copy.parameters(), Error);  // NOLINT: what a moved-from module does is documented
  CHECK_THROWS_AS(copy.is_training(), Error);
  copy = model;
  CHECK(copy.parameters().size() == 4);

  std::vector<Mlp> many;
  for (int i = 0; i < 10; ++i) many.push_back(model);
  CHECK(many[3].scale->is_same(model.scale));
}

TEST_CASE("Module: clone() makes an independent one, the user's struct included", "[nn]") {
  Mlp model;
  model.out.eval();
  const Mlp copy = nn::clone(model);
  CHECK_FALSE(copy.is_same(model));
  CHECK(names_of(copy.named_parameters()) == names_of(model.named_parameters()));
  CHECK(copy.child("in").is_same(copy.in));  // its members are its own children
  CHECK(copy.get("scale").is_same(copy.scale));
  CHECK(copy.get("in.weight").is_same(copy.in.weight()));
  CHECK(copy.get("calls").is_same(copy.calls));
  CHECK_FALSE(copy.out.is_training());
  CHECK(copy.in.is_training());
  for (std::size_t i = 0; i < 4; ++i) {
    const Tensor a = model.parameters()[i], b = copy.parameters()[i];
    CHECK_FALSE(a.is_same(b));
    CHECK(a.raw_data() != b.raw_data());
    CHECK(bytes_of(a) == bytes_of(b));
    CHECK(b.requires_grad());
    CHECK(b.is_leaf());
  }
  const std::string before = bytes_of(model.forward(input()).contiguous());
  CHECK(bytes_of(copy.forward(input()).contiguous()) == before);
  for (const Tensor& p : copy.parameters()) std::fill_n(p.data<float>(), p.numel(), 0.0f);
  CHECK(bytes_of(model.forward(input()).contiguous()) == before);

  // After clone(), copies are handles again.
  const Mlp handle = copy;
  CHECK(handle.is_same(copy));
}

TEST_CASE("Module: shared tensors and modules stay shared", "[nn]") {
  struct Tied : nn::Module {
    nn::Linear a = add("a", nn::Linear(3, 3));
    nn::Linear b = add("b", nn::Linear(3, 3));
    nn::Linear again = add("again", a);
    Tied() { b.weight().replace(a.weight()); }
  };
  Tied model;
  CHECK(names_of(model.named_parameters()) == std::vector<std::string>{"a.weight", "a.bias", "b.bias"});
  CHECK(model.state_dict().size() == 6);
  const Tied copy = nn::clone(model);
  CHECK(copy.a.weight()->is_same(copy.b.weight()));
  CHECK(copy.again.is_same(copy.a));
  CHECK_FALSE(copy.a.weight()->is_same(model.a.weight()));
  model.to(f64);
  CHECK(model.a.weight()->is_same(model.b.weight()));
  CHECK(model.b.weight()->dtype() == f64);
  Tied loaded;
  loaded.load_state_dict(model.state_dict());
  CHECK(loaded.get("b.weight").to_vector<float>() == model.get("a.weight").to_vector<float>());
  CHECK_THROWS_AS(model.a.weight().replace(ct::zeros({2})), ShapeError);
  CHECK_THROWS_AS(nn::Linear(2, 2, {.bias = false}).bias().replace(ct::zeros({2})), ValueError);
}

TEST_CASE("Module: what replaces a parameter is one", "[nn]") {
  const nn::Linear layer(3, 2);
  const Tensor before = layer.weight(), leaf = ct::zeros({2, 3}, {.requires_grad = true});
  CHECK_THROWS_AS(layer.weight().replace(ct::zeros({2, 3}, {.dtype = f64})), DTypeError);
  CHECK_THROWS_AS(layer.weight().replace(leaf * 2), AutogradError);
  CHECK_THROWS_AS(layer.weight().replace(Tensor()), ValueError);
  CHECK(layer.weight()->is_same(before));
  layer.weight().replace(ct::zeros({2, 3}));
  CHECK(layer.weight()->requires_grad());
  layer.weight().replace(leaf);
  CHECK(layer.weight()->is_same(leaf));
  // Frozen parameters stay frozen.
  nn::Linear frozen(3, 2);
  frozen.requires_grad(false);
  frozen.weight().replace(ct::zeros({2, 3}));
  CHECK_FALSE(frozen.weight()->requires_grad());
  // A buffer is any tensor.
  struct Counted : nn::Module {
    nn::Buffer calls = buffer("calls", ct::zeros({1}));
  };
  const Counted counted;
  counted.calls.replace(ct::ones({1}));
  CHECK_FALSE(counted.calls->requires_grad());
}

TEST_CASE("Module: a parameter on the GPU is replaced by one there", "[nn][cuda]") {
  const nn::Linear layer(3, 2, {.device = cuda(0)});
  CHECK_THROWS_AS(layer.weight().replace(ct::zeros({2, 3})), DeviceError);
  layer.weight().replace(ct::zeros({2, 3}, {.device = cuda(0)}));
  CHECK(layer.weight()->requires_grad());
}

TEST_CASE("Module: a state may hold the module's own tensors, exchanged", "[nn]") {
  struct Two : nn::Module {
    nn::Buffer a = buffer("a", tensor_of<float>({2}, {1, 2}));
    nn::Buffer b = buffer("b", tensor_of<float>({2}, {3, 4}));
  };
  Two model;
  model.load_state_dict({{"a", model.b}, {"b", model.a}});
  CHECK(model.a->to_vector<float>() == std::vector<float>{3, 4});
  CHECK(model.b->to_vector<float>() == std::vector<float>{1, 2});
  model.load_state_dict(model.state_dict());
  CHECK(model.a->to_vector<float>() == std::vector<float>{3, 4});
}

TEST_CASE("Module: names are checked", "[nn]") {
  Mlp model;
  CHECK_THROWS_AS((void)model.add("in", nn::Linear(1, 1)), ValueError);
  CHECK_THROWS_AS((void)model.add("scale", nn::Linear(1, 1)), ValueError);
  CHECK_THROWS_AS((void)model.add("", nn::Linear(1, 1)), ValueError);
  CHECK_THROWS_AS((void)model.add("a.b", nn::Linear(1, 1)), ValueError);
  CHECK_THROWS_AS(model.parameter("calls", ct::zeros({1})), ValueError);
  CHECK_THROWS_AS(model.parameter("x", ct::zeros({1}, {.dtype = i64})), DTypeError);
  CHECK_THROWS_AS(model.parameter("x", model.scale.tensor() * model.scale.tensor()), AutogradError);
  CHECK_THROWS_AS((void)model.add("self", nn::Module(model)), ValueError);
  nn::Module outer;
  const Mlp inner = outer.add("inner", model);
  CHECK_THROWS_AS((void)model.add("outer", outer), ValueError);
  CHECK(model.parameters().size() == 4);
  CHECK_THROWS_AS(nn::Linear(-1, 2), ShapeError);
}

template <class Dict>
concept Findable = requires(Dict dict) {
  std::forward<Dict>(dict).find("weight");
};

TEST_CASE("StateDict: what is taken out of a temporary one lives on", "[nn]") {
  static_assert(Findable<const StateDict&> && !Findable<StateDict&&>);
  const auto made = [] { return StateDict{{"weight", ct::full({2}, 3.f)}}; };
  const Tensor& weight = made().at("weight");
  const Tensor& same = made()["weight"];
  const StateDict other = made();  // takes the memory, were it free
  CHECK(weight.to_vector<float>() == std::vector<float>{3, 3});
  CHECK(same.to_vector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("Module: state_dict and load_state_dict", "[nn]") {
  Mlp a, b;
  const StateDict state = a.state_dict();
  std::vector<std::string> keys;
  for (const auto& [name, tensor] : state) {
    keys.push_back(name);
    CHECK_FALSE(tensor.requires_grad());
  }
  CHECK(keys == std::vector<std::string>{"scale", "calls", "in.weight", "in.bias", "out.weight"});
  CHECK(state["in.weight"].raw_data() == a.in.weight()->raw_data());

  const Tensor weight = b.in.weight();
  const nn::LoadReport report = b.load_state_dict(state);
  CHECK(report.missing.empty());
  CHECK(bytes_of(b.in.weight()) == bytes_of(a.in.weight()));
  CHECK(weight.is_same(b.in.weight()));

  StateDict wrong;
  wrong.set("in.weight", ct::zeros({4, 3}));
  wrong.set("scale", ct::zeros({2}));
  wrong.set("in.wieght", ct::zeros({1}));
  CHECK(message_of([&] { b.load_state_dict(wrong); }) ==
        "[load_state_dict] missing keys: 'calls', 'in.bias', 'out.weight'; unexpected keys: 'in.wieght'; "
        "shapes that differ: 'in.weight' is [4, 3] instead of [3, 4]; load the state of the same model");
  CHECK(message_of([&] { b.load_state_dict(wrong, {.strict = false}); }).find("missing") ==
        std::string::npos);
  CHECK(bytes_of(b.scale) == bytes_of(a.scale));  // nothing has changed
  StateDict part;
  part.set("scale", tensor_of<double>({2}, {5, 6}));
  const nn::LoadReport partial = b.load_state_dict(part, {.strict = false});
  CHECK(partial.missing.size() == 4);
  CHECK(b.scale->to_vector<float>() == std::vector<float>{5, 6});
  CHECK(b.scale->requires_grad());

  struct Scratch : nn::Module {
    nn::Buffer kept = buffer("kept", ct::zeros({1}));
    nn::Buffer scratch = buffer("scratch", ct::zeros({1}), {.persistent = false});
  };
  CHECK(Scratch().state_dict().size() == 1);
  CHECK(Scratch().buffers().size() == 2);
}

TEST_CASE("Module: train, eval, apply, zero_grad, requires_grad", "[nn]") {
  Mlp model;
  model.eval();
  CHECK_FALSE(model.out.is_training());
  model.train();
  CHECK(model.out.is_training());

  std::vector<std::string> kinds;
  model.apply([&](nn::Module& m) { kinds.push_back(m.kind()); });
  CHECK(kinds == std::vector<std::string>{"Linear", "Linear", ""});

  model.forward(input()).backward(ct::ones({2, 2}));
  CHECK(model.in.weight()->grad().defined());
  const Tensor grad = model.in.weight()->grad();
  model.zero_grad(false);
  CHECK(model.in.weight()->grad().is_same(grad));
  CHECK(grad.to_vector<float>() == std::vector<float>(12, 0.0f));
  model.zero_grad();
  CHECK_FALSE(model.in.weight()->grad().defined());

  model.in.requires_grad(false);
  CHECK(model.num_parameters(true) == 8);
  CHECK(model.num_parameters() == 23);
}

TEST_CASE("Module: to() keeps the identity of tensors and converts gradients", "[nn]") {
  Mlp model;
  model.forward(input()).backward(ct::ones({2, 2}));
  const Tensor weight = model.in.weight();
  const std::vector<float> values = weight.to_vector<float>(), grads = weight.grad().to_vector<float>();
  model.to(f64);
  CHECK(weight.is_same(model.in.weight()));
  CHECK(weight.dtype() == f64);
  CHECK(weight.grad().dtype() == f64);
  CHECK(weight.requires_grad());
  CHECK(weight.to_vector<float>() == values);
  CHECK(weight.grad().to_vector<float>() == grads);
  CHECK(model.calls->dtype() == i64);
  model.zero_grad();
  model.forward(input().to(f64)).backward(ct::ones({2, 2}, {.dtype = f64}));
  CHECK(weight.grad().dtype() == f64);
  model.to(cpu);
  CHECK_THROWS_AS(model.to(i64), DTypeError);
  if (cuda_device_count() == 0) CHECK_THROWS_AS(model.to(cuda(0)), DeviceError);

  // Nothing has changed when memory runs out on the way.
  for (int n = 1; n <= 4; ++n) {
    const AllocatorGuard guard(cpu, std::make_shared<ct::testing::FailingAllocator>(allocator(cpu), n));
    CHECK_THROWS_AS(model.to(f32), OutOfMemoryError);
    for (const Tensor& p : model.parameters()) CHECK(p.dtype() == f64);
  }
}

TEST_CASE("Module: to(device) and back", "[nn][cuda]") {
  if (cuda_device_count() == 0) return;
  Mlp model;
  const std::vector<float> before = model.forward(input()).to_vector<float>();
  const Tensor weight = model.in.weight();
  model.to(cuda(0));
  CHECK(weight.device() == cuda(0));
  CHECK(model.calls->device() == cuda(0));
  const Tensor y = model.forward(input().to(cuda(0)));
  for (std::size_t i = 0; i < before.size(); ++i)
    CHECK(y.to_vector<float>()[i] == Approx(before[i]).epsilon(1e-5));
  y.backward(ct::ones_like(y));
  CHECK(weight.grad().device() == cuda(0));
  const Mlp copy = nn::clone(model);
  CHECK(copy.in.weight()->device() == cuda(0));
  model.to(cpu);
  CHECK(weight.grad().device() == cpu);
  CHECK(model.forward(input()).to_vector<float>() == before);
}

TEST_CASE("Sequential and ModuleList", "[nn]") {
  nn::Sequential net(nn::Linear(4, 3), nn::Flatten(), nn::Linear(3, 2));
  CHECK(names_of(net.named_parameters()) ==
        std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"});
  CHECK(net(input()).shape() == Shape{2, 2});
  nn::Sequential handle = net;
  handle.append("last", Mlp().in);
  CHECK(net.size() == 4);
  CHECK(net.child("last").kind() == "Linear");
  CHECK_THROWS_AS(net(input()), ShapeError);  // [2, 2] does not fit into 4 -> 3

  nn::Sequential small(nn::Linear(4, 4), Mlp());
  const nn::Sequential copy = nn::clone(small);
  const std::string y = bytes_of(small(input()).contiguous());
  CHECK(bytes_of(copy(input()).contiguous()) == y);
  for (const Tensor& p : small.parameters()) std::fill_n(p.data<float>(), p.numel(), 0.0f);
  CHECK(bytes_of(copy(input()).contiguous()) == y);
  CHECK(nn::Sequential()(input()).is_same(nn::Identity()(nn::Sequential()(input()))) == false);
  CHECK(to_string(nn::Sequential(nn::Flatten(0))) ==
        "Sequential(\n  (0): Flatten(first_axis=0, last_axis=-1)\n)");

  nn::ModuleList<Mlp> blocks;
  for (int i = 0; i < 3; ++i) blocks.append(Mlp());
  CHECK(blocks.parameters().size() == 12);
  CHECK(names_of(blocks.named_parameters())[4] == "1.scale");
  const nn::ModuleList<Mlp> blocks_copy = nn::clone(blocks);
  CHECK(blocks_copy[1].get("scale").is_same(blocks_copy.get("1.scale")));
  CHECK_FALSE(blocks_copy[1].scale->is_same(blocks[1].scale));
  CHECK_THROWS_AS(blocks[3], IndexError);
  int count = 0;
  for (const Mlp& block : blocks) count += block.is_training();
  CHECK(count == 3);
}

TEST_CASE("Linear: values and gradients", "[nn]") {
  nn::Linear layer(2, 3);
  const std::vector<float> w = {1, 2, 3, 4, 5, 6}, b = {0.5, -0.5, 1};
  std::copy(w.begin(), w.end(), layer.weight()->data<float>());
  std::copy(b.begin(), b.end(), layer.bias()->data<float>());
  const Tensor x = tensor_of<float>({1, 2}, {10, 100});
  const Tensor y = layer(x);
  CHECK(y.to_vector<float>() == std::vector<float>{210.5, 429.5, 651});
  y.backward(ct::ones({1, 3}));
  CHECK(layer.weight()->grad().to_vector<float>() == std::vector<float>{10, 100, 10, 100, 10, 100});
  CHECK(layer.bias()->grad().to_vector<float>() == std::vector<float>{1, 1, 1});
  CHECK_THROWS_AS(layer(ct::zeros({1, 3})), ShapeError);
  const nn::Linear half(8, 4, {.dtype = f16});
  CHECK(half.weight()->dtype() == f16);
}
