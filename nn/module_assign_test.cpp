#include <array>
#include <optional>
#include <utility>
#include <vector>

#include <cotangent/nn/activation.h>
#include <cotangent/nn/attention.h>
#include <cotangent/nn/container.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/models/gpt2.h>
#include <cotangent/nn/module.h>
#include <cotangent/nn/normalization.h>
#include <cotangent/nn/optim/sgd.h>
#include <cotangent/nn/transformer.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/reduce/reduce.h>

#include "tests/catch.h"
#include "tests/optim_testing.h"

// Assigning to members of modules: what forward() uses is what the module lists.

using namespace ct;
using ct::testing::bytes_of;
using ct::testing::check_mentions;
using ct::testing::message_of;

namespace {

struct Net : nn::Module {
  nn::Linear in = add("in", nn::Linear(4, 3));
  nn::Linear fc = add("fc", nn::Linear(3, 2));
  nn::Parameter scale = parameter("scale", ct::ones({1}));
  nn::Buffer shift = buffer("shift", ct::zeros({1}), {.persistent = false});
  Tensor forward(const Tensor& x) const { return scale * fc(relu(in(x))) + shift; }
};

// The module lists the layers that its members are.
void check_whole(const Net& net) {
  CHECK(net.child("in").is_same(net.in));
  CHECK(net.child("fc").is_same(net.fc));
  CHECK(net.get("fc.weight").is_same(net.fc.weight()));
  CHECK(net.get("scale").is_same(net.scale));
  CHECK(net.get("shift").is_same(net.shift));
  CHECK(net.parameters().size() == 5);
}

}  // namespace

TEST_CASE("Module: assigning to a member replaces the child", "[nn][assign]") {
  Net net;
  const nn::Linear old = net.fc;
  const std::vector<Tensor> before = net.parameters();
  net.eval();
  net.fc = nn::Linear(3, 5, {.bias = false});
  CHECK(net.forward(ct::ones({1, 4})).shape() == Shape{1, 5});
  CHECK(net.child("fc").is_same(net.fc));
  CHECK(net.get("fc.weight").is_same(net.fc.weight()));
  CHECK(net.state_dict().at("fc.weight").shape() == Shape{5, 3});
  CHECK_FALSE(net.state_dict().contains("fc.bias"));
  CHECK(net.fc.is_training());  // its own mode, as in PyTorch
  CHECK_FALSE(net.in.is_training());
  net.train();
  net.eval();
  CHECK_FALSE(net.fc.is_training());
  CHECK(nn::to_string(net).find("(fc): Linear(in=3, out=5") != std::string::npos);
  CHECK(old.weight()->is_same(before[3]));  // whoever kept the old one has it
  CHECK_FALSE(old.is_same(net.fc));

  // The old parameters are not the module's any more; a new optimizer knows the new ones.
  optim::SGD sgd(net.parameters(), {.lr = 1});
  const std::string weights = bytes_of(net.fc.weight());
  sum(net.forward(ct::ones({1, 4}))).backward();
  CHECK(net.fc.weight()->grad().defined());
  sgd.step();
  CHECK(bytes_of(net.fc.weight()) != weights);

  // Again, by a copy of something that is used elsewhere, too, and by itself.
  const nn::Linear shared(3, 2);
  net.fc = shared;
  CHECK(net.child("fc").is_same(shared));
  net.fc = *&net.fc;
  check_whole(net);
}

TEST_CASE("Module: handles that are no members are bound anew", "[nn][assign]") {
  nn::Linear a(4, 3), b(3, 2);
  a = b;
  CHECK(a.is_same(b));
  Net net;
  const nn::Linear in = net.in, fc = net.fc;
  for (nn::Linear layer = net.in; !layer.is_same(net.fc);) layer = net.fc;
  nn::Module any = net.child("in");
  any = net.child("fc");
  nn::Parameter p = net.scale;
  p = net.in.weight();
  std::optional<nn::Linear> last = net.in;
  last = net.fc;
  std::vector<nn::Linear> list = {net.in, net.fc};
  std::swap(list[0], list[1]);
  CHECK(net.in.is_same(in));
  CHECK(net.fc.is_same(fc));
  check_whole(net);
}

TEST_CASE("Module: structs are copied, moved and assigned as a whole", "[nn][assign]") {
  Net a, b;
  const Net kept = a;
  const nn::Linear a_fc = a.fc;
  a = b;  // does not reach into the module that `kept` is a handle to
  CHECK(a.is_same(b));
  check_whole(a);
  check_whole(kept);
  CHECK(kept.fc.is_same(a_fc));
  a = Net();
  CHECK_FALSE(a.is_same(b));
  check_whole(a);
  check_whole(b);
  a = nn::clone(kept);
  check_whole(a);
  CHECK_FALSE(a.fc.is_same(kept.fc));

  // A module that was moved is assigned to as before, and so is the one that takes its place.
  Net moved = std::move(a);
  moved.fc = nn::Linear(3, 2);
  check_whole(moved);
  a = Net();
  a.fc = nn::Linear(3, 2);
  check_whole(a);
  check_whole(moved);
  std::vector<Net> many;
  for (int i = 0; i < 5; ++i) many.emplace_back();
  many[2].fc = nn::Linear(3, 2);
  many.erase(many.begin());
  many[2].fc = nn::Linear(3, 2);
  for (const Net& net : many) check_whole(net);

  // A clone is a module of its own.
  Net tuned = nn::clone(b);
  tuned.fc = nn::Linear(3, 2);
  check_whole(tuned);
  check_whole(b);
  CHECK_FALSE(tuned.fc.is_same(b.fc));
}

TEST_CASE("Module: a member of one of several handles can't be assigned to", "[nn][assign]") {
  Net net;
  const nn::Linear fc = net.fc;
  {
    Net copy = net;
    const std::string text = message_of([&] { copy.fc = nn::Linear(3, 2); });
    check_mentions(text, {"[module] 'fc' is assigned to in one of 2 handles", "; assign before"});
    CHECK_THROWS_AS(net.fc = nn::Linear(3, 2), Error);
    CHECK_THROWS_AS(net.scale = net.in.bias(), Error);
    Net third;
    third = net;
    CHECK_THROWS_AS(third.fc = nn::Linear(3, 2), Error);
    check_whole(copy);
    check_whole(third);
    CHECK(net.fc.is_same(fc));
  }
  net.fc = nn::Linear(3, 2);  // the others are gone
  check_whole(net);
  std::optional<Net> first(std::in_place);
  Net copy = *first;
  first.reset();
  copy.fc = nn::Linear(3, 2);
  check_whole(copy);
}

TEST_CASE("Module: members are exchanged under their names", "[nn][assign]") {
  struct Pair : nn::Module {
    nn::Linear a = add("a", nn::Linear(2, 2));
    nn::Linear b = add("b", nn::Linear(2, 2));
    nn::Parameter v = parameter("v", ct::ones({1}));
    nn::Parameter w = parameter("w", ct::zeros({1}));
  };
  Pair pair;
  const nn::Linear a = pair.a, b = pair.b;
  std::swap(pair.a, pair.b);
  CHECK(pair.a.is_same(b));
  CHECK(pair.child("a").is_same(b));
  CHECK(pair.child("b").is_same(a));
  std::swap(pair.v, pair.w);
  CHECK(pair.v->item() == 0);
  CHECK(pair.get("v").item() == 0);
  CHECK(pair.get("w").item() == 1);
  // Taken out, and something else put in: what was taken has nothing to do with the module any more.
  nn::Linear taken = std::move(pair.a);
  pair.a = nn::Linear(2, 3);
  taken = nn::Linear(5, 5);
  CHECK(pair.child("a").is_same(pair.a));
  pair.a = nn::Linear(2, 4);
  CHECK(pair.get("a.weight").shape() == Shape{4, 2});
}

TEST_CASE("Module: assigning to a member of a nested, optional or inherited one", "[nn][assign]") {
  struct Outer : nn::Module {
    Net net = add("net", Net());
    std::optional<nn::LayerNorm> norm;
    std::array<nn::Linear, 2> two = {add("0", nn::Linear(2, 2)), add("1", nn::Linear(2, 2))};
    nn::Linear late{1, 1};
    Outer() {
      norm = add("norm", nn::LayerNorm(2));
      late = add("late", nn::Linear(2, 2));
    }
  };
  struct Derived : Outer {
    nn::Linear more = add("more", nn::Linear(2, 2));
  };
  Derived d;
  d.net.fc = nn::Linear(3, 2);
  CHECK(d.child("net.fc").is_same(d.net.fc));
  *d.norm = nn::LayerNorm(3);
  CHECK(d.child("norm").is_same(*d.norm));
  d.two[1] = nn::Linear(2, 5);
  CHECK(d.child("1").is_same(d.two[1]));
  d.late = nn::Linear(2, 5);
  CHECK(d.child("late").is_same(d.late));
  Derived moved = std::move(d);
  moved.more = nn::Linear(2, 7);
  moved.net = Net();
  moved.net.fc = nn::Linear(3, 9);
  moved.two[0] = nn::Linear(2, 6);
  for (const char* name : {"more", "net.fc", "0"}) {
    const nn::Module& member = name == std::string("more") ? moved.more
                               : name == std::string("0")  ? moved.two[0]
                                                           : moved.net.fc;
    CHECK(moved.child(name).is_same(member));
  }
  Derived copy = nn::clone(moved);
  copy.net.fc = nn::Linear(3, 1);
  copy.two[0] = nn::Linear(2, 1);
  CHECK(copy.child("net.fc").is_same(copy.net.fc));
  CHECK(copy.child("0").is_same(copy.two[0]));
  CHECK(moved.child("net.fc").is_same(moved.net.fc));
}

TEST_CASE("Module: members in a vector, when structs are assigned", "[nn][assign]") {
  struct Stack : nn::Module {
    std::vector<nn::Linear> layers;
    Stack() {
      for (const char* name : {"a", "b"}) layers.push_back(add(name, nn::Linear(2, 2)));
    }
  };
  Stack one, other;
  one.layers[1] = nn::Linear(2, 2);
  CHECK(one.child("b").is_same(one.layers[1]));
  const nn::Module kept = one;
  const nn::Linear b = one.layers[1];
  one = other;
  CHECK(one.child("b").is_same(one.layers[1]));
  CHECK(kept.child("b").is_same(b));
}

TEST_CASE("Module: assigning to a Parameter or Buffer member", "[nn][assign]") {
  struct Tied : nn::Module {
    nn::Linear embed = add("embed", nn::Linear(3, 3, {.bias = false}));
    nn::Parameter head = parameter("head", ct::zeros({3, 3}));
    nn::Buffer calls = buffer("calls", ct::zeros({1}), {.persistent = false});
  };
  Tied net;
  net.head = net.embed.weight();
  CHECK(net.parameters().size() == 1);
  CHECK(net.get("head").is_same(net.head));
  CHECK(net.state_dict().size() == 2);
  // From now on they are one: replace() through either is seen through both.
  net.embed.weight().replace(ct::ones({3, 3}));
  CHECK(net.head->to_vector<float>()[0] == 1);
  net.head = nn::Parameter();
  CHECK_FALSE(net.head.defined());
  CHECK(net.get("embed.weight").defined());
  CHECK_THROWS_AS(net.get("head"), ValueError);
  const Tied other;
  net.calls = other.calls;
  CHECK(net.buffers()[0].is_same(other.calls));
  CHECK(net.state_dict().size() == 1);  // still not persistent
}

TEST_CASE("Containers: a module is replaced in its place", "[nn][assign]") {
  nn::Sequential net(nn::Linear(4, 3), nn::ReLU(), nn::Linear(3, 2));
  const nn::Sequential handle = net;
  net.replace(2, nn::Linear(3, 7));
  CHECK(handle.forward(ct::ones({1, 4})).shape() == Shape{1, 7});
  CHECK(handle.get("2.weight").shape() == Shape{7, 3});
  net.replace(1, nn::Tanh());
  CHECK(net.child("1").kind() == "Tanh");
  CHECK_THROWS_AS(net.replace(3, nn::ReLU()), IndexError);
  nn::Sequential copy = nn::clone(net);
  copy.replace(2, nn::Linear(3, 1));
  CHECK(copy.get("2.weight").shape() == Shape{1, 3});
  CHECK(net.get("2.weight").shape() == Shape{7, 3});

  nn::ModuleList<nn::Linear> list = {nn::Linear(2, 2), nn::Linear(2, 2)};
  nn::Linear alias = list.append(nn::Linear(2, 2));
  alias = nn::Linear(9, 9);
  CHECK(list.get("2.weight").shape() == Shape{2, 2});
  list.replace(1, nn::Linear(2, 5));
  CHECK(list[1].weight()->shape() == Shape{5, 2});
  CHECK(list.child("1").is_same(list[1]));
  CHECK_THROWS_AS(list.replace(3, nn::Linear(1, 1)), IndexError);
  nn::ModuleList<nn::Linear> list_copy = nn::clone(list);
  list_copy.replace(1, nn::Linear(2, 6));
  CHECK(list_copy.child("1").is_same(list_copy[1]));
  CHECK(list.child("1").is_same(list[1]));

  struct Held : nn::Module {
    nn::AnyModule head = nn::Linear(4, 2);
    nn::AnyModule tail = add("tail", nn::Linear(2, 2));
    nn::Sequential body = add("body", nn::Sequential(nn::Linear(4, 4)));
    Held() { head.add_to(*this, "head"); }
  };
  Held held;
  held.head = nn::Sequential(nn::Linear(4, 6));
  held.tail = Net();
  held.body = nn::Sequential(nn::ReLU());
  CHECK(held.head(ct::ones({1, 4})).shape() == Shape{1, 6});
  CHECK(held.get("head.0.weight").shape() == Shape{6, 4});
  CHECK(held.child("tail").kind() == "Net");
  CHECK(held.child("body").is_same(held.body));
  Held moved = nn::clone(held);
  moved.head = nn::ReLU();
  CHECK(moved.child("head").kind() == "ReLU");
  CHECK(held.child("head").kind() == "Sequential");
}

TEST_CASE("Modules of the library: their parts are assigned to", "[nn][assign]") {
  nn::TransformerEncoderLayer layer(4, 2, {.dim_feedforward = 8});
  nn::TransformerEncoder encoder(layer, 2, nn::LayerNorm(4));
  encoder.layers = {layer};
  *encoder.norm = nn::LayerNorm(4, {.bias = false});
  CHECK(encoder.child("layers.0").is_same(layer));
  CHECK_FALSE(encoder.state_dict().contains("layers.1.norm1.weight"));
  CHECK_FALSE(encoder.state_dict().contains("norm.bias"));
  CHECK_THROWS_AS(layer.self_attn = nn::MultiheadAttention(4, 4), Error);  // the encoder holds it as well
  nn::TransformerEncoderLayer copy = nn::clone(layer);
  copy.self_attn = nn::MultiheadAttention(4, 4);
  CHECK(copy.child("self_attn").is_same(copy.self_attn));
  nn::MultiheadAttention attention(4, 2);
  attention = nn::MultiheadAttention(8, 2);
  CHECK(attention.get("out_proj.weight").shape() == Shape{8, 8});
  nn::models::Gpt2Mlp mlp({.n_embd = 4, .n_head = 1, .n_inner = 8});
  mlp.c_fc = nn::Linear(4, 8, {.bias = false});
  CHECK(mlp.parameters().size() == 3);
}

TEST_CASE("Module: what can't be assigned changes nothing", "[nn][assign]") {
  struct Node : nn::Module {
    nn::Module inner = add("inner", nn::Module());
  };
  Node node;
  const nn::Module before = node.inner;
  nn::Module outer;
  const Node inside = outer.add("node", node);
  check_mentions(message_of([&] { nn::Module(inside).apply({}); }), {"[apply]", "; pass"});
  Node other;
  CHECK_THROWS_AS(other.inner = other, ValueError);  // NOLINT: a module within itself
  nn::Module gone = std::move(outer);
  check_mentions(message_of([&] { other.inner = outer; }), {"moved from", "; assign"});  // NOLINT
  CHECK(other.child("inner").is_same(other.inner));
  CHECK(node.inner.is_same(before));
}

TEST_CASE("Handles that were moved from say so", "[nn][assign]") {
  Net net;
  const Net moved = std::move(net);
  const Tensor x = ct::ones({1, 4});
  const auto text_of = [](auto&& f) { return message_of([&] { f(); }); };
  check_mentions(text_of([&] { net.forward(x); }), {"[module]", "moved from", "; use"});  // NOLINT
  check_mentions(text_of([&] { net.in(x); }), {"moved from"});
  check_mentions(text_of([&] { (void)net.scale->shape(); }), {"moved from"});
  nn::LayerNorm norm(4, {.affine = false});
  const nn::LayerNorm norm_moved = std::move(norm);
  check_mentions(text_of([&] { norm(x); }), {"moved from"});  // NOLINT
  nn::AnyModule any = nn::Linear(4, 2);
  nn::AnyModule any_moved = std::move(any);
  check_mentions(text_of([&] { any(x); }), {"[AnyModule]", "moved from"});  // NOLINT
  nn::Module root;
  check_mentions(text_of([&] { any.add_to(root, "a"); }), {"moved from"});
  const nn::AnyModule any_copy = any;
  check_mentions(text_of([&] { any_copy.forward(x); }), {"moved from"});
  CHECK(any_moved(x).shape() == Shape{1, 2});
  nn::Sequential sequential(nn::Linear(4, 2), nn::ReLU());
  const nn::Sequential sequential_moved = std::move(sequential);
  check_mentions(text_of([&] { sequential(x); }), {"moved from"});  // NOLINT
}

TEST_CASE("Sequential: functions, indices and slices", "[nn]") {
  const Tensor x = ct::randn({4, 3});
  nn::Sequential net(
      nn::Linear(3, 5), ct::relu, [](const Tensor& h) { return 2 * h; }, nn::Linear(5, 1));
  CHECK(net.size() == 4);
  CHECK(net.parameters().size() == 4);
  const Tensor hidden = 2 * ct::relu(net[0](x));
  CHECK(bytes_of(net(x)) == bytes_of(net[3](hidden)));
  Tensor y = x;
  for (const nn::AnyModule& layer : net) y = layer(y);
  CHECK(bytes_of(net(x)) == bytes_of(y));
  CHECK_THROWS_AS(net[4], IndexError);

  // A slice shares its modules.
  const nn::Sequential front = net.slice(0, 3), back = net.slice(3), none = net.slice(4);
  CHECK(front.size() == 3);
  CHECK(back.named_parameters()[0].name == "0.weight");
  CHECK(bytes_of(back(front(x))) == bytes_of(net(x)));
  CHECK(bytes_of(none(x)) == bytes_of(x));
  CHECK(net.slice(2, 1).size() == 0);
  net.get("0.bias").detach().fill_(3);
  CHECK(bytes_of(back(front(x))) == bytes_of(net(x)));
  // And what is put in a place of the whole does not reach it.
  net.replace(1, nn::Tanh());
  CHECK(bytes_of(back(front(x))) != bytes_of(net(x)));
  CHECK(bytes_of(ct::nn::clone(net)(x)) == bytes_of(net(x)));
  CHECK_THROWS_AS(nn::Lambda(nn::Lambda::Function()), ValueError);
  CHECK(nn::to_string(nn::Lambda([](const Tensor& t) { return t; }, "same")) == "Lambda(same)");
}

TEST_CASE("Unflatten splits an axis", "[nn]") {
  CHECK(nn::Unflatten(1, {2, 3})(ct::zeros({4, 6, 5})).shape() == Shape{4, 2, 3, 5});
  CHECK(nn::Unflatten(-1, {-1, 2})(ct::zeros({4, 6})).shape() == Shape{4, 3, 2});
  CHECK(nn::Unflatten(0, {6})(ct::zeros({6})).shape() == Shape{6});
  CHECK_THROWS_AS(nn::Unflatten(1, {4, 2})(ct::zeros({4, 6})), ShapeError);
  CHECK_THROWS_AS(nn::Unflatten(2, {2})(ct::zeros({4, 6})), ShapeError);
  CHECK_THROWS_AS(nn::Unflatten(1, {}), ValueError);
}
