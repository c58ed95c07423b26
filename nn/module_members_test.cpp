#include <sstream>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/nn/container.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/module.h>
#include <cotangent/nn/normalization.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/reduce/reduce.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using Catch::Matchers::Contains;
using Kind = nn::Member::Kind;

namespace {

struct MemberNet : nn::Module {
  nn::Linear in = add("in", nn::Linear(2, 2));
  nn::Parameter scale = parameter("scale", full({2}, 3.f));
  nn::Buffer count = buffer("count", zeros({1}), {.persistent = false});
  Tensor forward(const Tensor& x) const { return in(x)*scale + count; }
};

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) names.push_back(name);
  return names;
}

template <class E>
std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& error) { return error.what(); }
  return "no such error";
}

}  // namespace

TEST_CASE("Module: members of one module by name", "[nn]") {
  MemberNet net;
  const std::vector<nn::Member> members = net.members();
  REQUIRE(members.size() == 3);
  CHECK(members[0].name == "scale");
  CHECK(members[0].kind == Kind::parameter);
  CHECK(members[0].tensor.is_same(net.scale));
  CHECK(members[1].kind == Kind::buffer);
  CHECK_FALSE(members[1].persistent);
  CHECK(members[2].name == "in");
  CHECK(members[2].kind == Kind::module);
  CHECK_FALSE(members[2].tensor.defined());
  CHECK(net.member("scale")->tensor.is_same(net.scale));
  CHECK_FALSE(net.member("weight").has_value());
  CHECK_FALSE(net.member("in.weight").has_value());
  const nn::Linear plain(2, 2, {.bias = false});
  REQUIRE(plain.member("bias").has_value());  // a name that stands for none
  CHECK_FALSE(plain.member("bias")->tensor.defined());
  CHECK(plain.settings() == "in=2, out=2, bias=false");
}

TEST_CASE("Module: set_tensor() of any shape is what the member names", "[nn]") {
  nn::Linear layer(2, 3);
  layer.set_tensor("weight", full({1, 2}, 2.f));
  layer.set_tensor("bias", Tensor());
  CHECK(layer.weight()->requires_grad());
  CHECK(layer.forward(ones({1, 2})).item<float>() == 4);
  CHECK(names_of(layer.state_dict()) == std::vector<std::string>{"weight"});
  CHECK(layer.parameters().size() == 1);
  sum(layer.forward(ones({1, 2}))).backward();
  CHECK(layer.parameters()[0].grad().defined());
  layer.set_tensor("bias", ones({1}));
  CHECK(layer.forward(ones({1, 2})).item<float>() == 5);

  MemberNet net;
  net.set_tensor("count", ones({2}, {.dtype = i64}));
  CHECK(net.count.tensor().dtype() == i64);
  CHECK_FALSE(net.count.tensor().requires_grad());

  const Tensor before = net.scale;
  const Tensor result = before * 2;
  CHECK_THAT(message_of<AutogradError>([&] { net.set_tensor("scale", result); }), Contains("leaf"));
  CHECK_THAT(message_of<DTypeError>([&] { net.set_tensor("scale", ones({2}, {.dtype = i64})); }),
             Contains("floating"));
  CHECK_THAT(message_of<ValueError>([&] { net.set_tensor("in", before); }), Contains("'in'"));
  CHECK(net.scale.tensor().is_same(before));
}

TEST_CASE("Module: a tensor under two names stays one", "[nn]") {
  nn::Linear one(2, 2, {.bias = false}), other(2, 2, {.bias = false});
  nn::Module both;
  both.set_child("one", one);
  both.set_child("other", other);
  other.set_tensor("weight", one.weight());
  CHECK(both.parameters().size() == 1);
  CHECK(names_of(both.state_dict()) == std::vector<std::string>{"one.weight", "other.weight"});
  both.to(f64);
  CHECK(one.weight()->is_same(other.weight()));
  StateDict values;
  values.set("one.weight", full({2, 2}, 7.f));
  both.load_state_dict(values, {.strict = false});
  CHECK(other.weight().tensor()[0][0].item<double>() == 7);
  CHECK(both.parameters().size() == 1);
}

TEST_CASE("Module: set_child() registers or replaces a child of any type", "[nn]") {
  nn::Module net;
  net.set_child("part", nn::Linear(2, 2));
  net.set_child("next", nn::Linear(1, 1));
  net.set_child("part", nn::LayerNorm(4));
  REQUIRE(net.children().size() == 2);
  CHECK(net.children()[0].value.kind() == "LayerNorm");
  CHECK(net.get("part.weight").shape() == Shape{4});
  CHECK_THAT(message_of<ValueError>([&] { net.set_child("part", net); }), Contains("tree"));
  nn::Module above;
  above.set_child("net", net);
  CHECK_THAT(message_of<ValueError>([&] { net.set_child("next", above); }), Contains("tree"));
  CHECK_THAT(message_of<ValueError>([&] { net.set_child("new", above); }), Contains("tree"));
  CHECK_THAT(message_of<ValueError>([&] { net.set_child("a.b", nn::Linear(1, 1)); }), Contains("'a.b'"));
  CHECK(net.get("next.weight").shape() == Shape{1, 1});

  MemberNet held;
  CHECK_THAT(message_of<Error>([&] { held.set_child("in", nn::Linear(2, 2)); }),
             Contains("member of a struct"));
  CHECK_THAT(message_of<ValueError>([&] { held.set_child("scale", nn::Linear(2, 2)); }), Contains("taken"));
  CHECK(held.child("in").is_same(held.in));
}

TEST_CASE("Module: remove() takes a name out, or leaves none to the member", "[nn]") {
  nn::Module net;
  net.set_child("part", nn::Linear(2, 2));
  (void)net.parameter("w", ones({2}));
  (void)net.buffer("b", ones({2}));
  CHECK(net.remove("w"));
  CHECK(net.remove("part"));
  CHECK_FALSE(net.remove("w"));
  CHECK_FALSE(net.remove("part.weight"));
  CHECK(names_of(net.state_dict()) == std::vector<std::string>{"b"});
  (void)net.buffer("w", zeros({1}));
  CHECK(net.member("w")->kind == Kind::buffer);

  nn::Linear layer(2, 2);
  CHECK(layer.remove("bias"));
  REQUIRE(layer.member("bias").has_value());
  CHECK(layer.parameters().size() == 1);
  layer.set_tensor("weight", zeros({2, 2}));
  CHECK(layer.forward(ones({1, 2}))[0][0].item<float>() == 0);
  layer.set_tensor("bias", full({2}, 5.f));
  CHECK(layer.forward(ones({1, 2}))[0][1].item<float>() == 5);

  MemberNet held;
  CHECK_THAT(message_of<Error>([&] { held.remove("in"); }), Contains("member of a struct"));
  CHECK(held.child("in").is_same(held.in));
}

TEST_CASE("Module: set_training() is of one module alone", "[nn]") {
  MemberNet net;
  net.set_training(false);
  CHECK_FALSE(net.is_training());
  CHECK(net.in.is_training());
}
