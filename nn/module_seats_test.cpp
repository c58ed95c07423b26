#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cotangent/nn/activation.h>
#include <cotangent/nn/container.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/module.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/unary.h>

#include "tests/catch.h"
#include "tests/optim_testing.h"

// Which handles are members of which struct: what is assigned to one is what the module lists, or throws.

using namespace ct;
using ct::testing::check_mentions;
using ct::testing::message_of;

namespace {

/// So many layers as members, nested by tens.
template <int kLayers>
struct Body : nn::Module {
  std::array<nn::Linear, kLayers % 10> layers = make(std::make_integer_sequence<int, kLayers % 10>());
  Body<kLayers - kLayers % 10 - 1> more = add("more", Body<kLayers - kLayers % 10 - 1>());

 private:
  template <int... k>
  std::array<nn::Linear, kLayers % 10> make(std::integer_sequence<int, k...>) {
    return {add(std::to_string(k), nn::Linear(2, 2))...};
  }
};
template <int kLayers>
requires(kLayers <= 0) struct Body<kLayers> : nn::Module {
};

/// So many layers as members, all of one struct.
template <int kLayers>
struct Flat : nn::Module {
  std::array<nn::Linear, kLayers> layers = make(std::make_integer_sequence<int, kLayers>());

 private:
  template <int... k>
  std::array<nn::Linear, kLayers> make(std::integer_sequence<int, k...>) {
    return {add(std::to_string(k), nn::Linear(2, 2))...};
  }
};

template <class Inside>
struct Headed : nn::Module {
  Inside body = add("body", Inside());
  nn::Linear head = add("head", nn::Linear(2, 3));
  nn::Parameter scale = parameter("scale", ct::ones({1}));
  Tensor forward(const Tensor& x) const { return head(x) * scale; }
};

template <class N>
void check_head(const N& net, std::int64_t out) {
  CHECK(net.forward(ct::ones({1, 2})).shape() == Shape{1, out});
  CHECK(net.get("head.weight").shape() == Shape{out, 2});
  CHECK(net.state_dict().at("head.weight").shape() == Shape{out, 2});
  CHECK(net.child("head").is_same(net.head));
}

template <class Inside>
void assign_after_everything() {
  using N = Headed<Inside>;
  auto a = std::make_unique<N>();
  CHECK_NOTHROW(a->head = nn::Linear(2, 4));
  check_head(*a, 4);
  N b = *a;
  CHECK_THROWS_AS(b.head = nn::Linear(2, 5), Error);
  CHECK_THROWS_AS(a->head = nn::Linear(2, 5), Error);
  CHECK_THROWS_AS(b.scale = b.head.bias(), Error);
  check_head(b, 4);
  a.reset();
  b.head = nn::Linear(2, 5);
  check_head(b, 5);
  N c = std::move(b);
  c.head = nn::Linear(2, 6);
  check_head(c, 6);
  N d;
  d = c;
  CHECK_THROWS_AS(d.head = nn::Linear(2, 7), Error);
  c = N();
  check_head(c, 3);
  c.head = nn::Linear(2, 8);
  check_head(c, 8);
  check_head(d, 6);
  d.head = nn::Linear(2, 7);
  check_head(d, 7);
  d = std::move(c);
  d.head = nn::Linear(2, 9);
  check_head(d, 9);
  N e = nn::clone(d);
  e.head = nn::Linear(2, 1);
  check_head(e, 1);
  check_head(d, 9);
  std::vector<N> many(3);
  many.insert(many.begin(), e);
  CHECK_THROWS_AS(many[0].head = nn::Linear(2, 2), Error);
  many.erase(many.begin());
  many.push_back(N());
  for (N& net : many) net.head = nn::Linear(2, 2);
  for (const N& net : many) check_head(net, 2);
  std::optional<N> maybe = e;
  CHECK_THROWS_AS(maybe->head = nn::Linear(2, 2), Error);
  maybe.emplace();
  maybe->head = nn::Linear(2, 2);
  check_head(*maybe, 2);
  const auto shared = std::make_shared<N>(nn::clone(e));
  shared->head = nn::Linear(2, 2);
  check_head(*shared, 2);
}

struct Heap : nn::Module {
  std::vector<nn::Linear> layers;
  std::map<std::string, nn::Linear> named;
  std::deque<nn::AnyModule> any;
  std::vector<nn::Parameter> scales;
  Heap() {
    for (const char* name : {"a", "b"}) layers.push_back(add(name, nn::Linear(2, 2)));
    named.emplace("c", add("c", nn::Linear(2, 2)));
    any.emplace_back(nn::Linear(2, 2)).add_to(*this, "d");
    scales.push_back(parameter("e", ct::ones({1})));
  }
};

void check_heap(const Heap& s) {
  CHECK(s.child("a").is_same(s.layers[0]));
  CHECK(s.child("b").is_same(s.layers[1]));
  CHECK(s.child("c").is_same(s.named.at("c")));
  CHECK(s.get("d.weight").shape() == Shape{s.any[0](ct::ones({1, 2})).size(1), 2});
  CHECK(s.get("e").is_same(s.scales[0]));
}

}  // namespace

TEST_CASE("Seats: any number of layers inside", "[nn][assign]") {
  assign_after_everything<Body<1>>();
  assign_after_everything<Flat<8>>();
  assign_after_everything<Flat<15>>();
  assign_after_everything<Flat<16>>();
  assign_after_everything<Flat<40>>();
  assign_after_everything<Body<39>>();
  assign_after_everything<Headed<Headed<Flat<17>>>>();
}

TEST_CASE("Seats: the members of what is deep inside", "[nn][assign]") {
  using Deep = Headed<Headed<Headed<Flat<20>>>>;
  auto a = std::make_unique<Deep>();
  Deep b = *a;
  CHECK_THROWS_AS(b.body.body.head = nn::Linear(2, 5), Error);
  CHECK_THROWS_AS(b.body.body.body.layers[19] = nn::Linear(2, 5), Error);
  a.reset();
  b.body.body.head = nn::Linear(2, 5);
  b.body.body.body.layers[19] = nn::Linear(2, 7);
  CHECK(b.get("body.body.head.weight").shape() == Shape{5, 2});
  CHECK(b.get("body.body.body.19.weight").shape() == Shape{7, 2});
  b.body = Headed<Headed<Flat<20>>>();
  b.body.body.head = nn::Linear(2, 9);
  CHECK(b.get("body.body.head.weight").shape() == Shape{9, 2});
}

TEST_CASE("Seats: copies beside a slice of their module are no members", "[nn][assign]") {
  // The second lies behind the first as the first member of Flat does behind its base.
  Flat<2> net;
  const nn::Module& base = net;
  struct Beside {
    nn::Module module;
    nn::Linear layer;
  };
  Beside beside = {base, net.layers[0]};
  beside.layer = nn::Linear(2, 5);
  CHECK(net.child("0").is_same(net.layers[0]));
  std::pair<nn::Module, nn::Linear> pair = {net, net.layers[0]};
  pair.second = nn::Linear(2, 5);
  net.layers[0] = nn::Linear(2, 6);
  CHECK(net.get("0.weight").shape() == Shape{6, 2});
  // A second name for a member is bound anew, in a copy of the struct as well.
  struct Twice : nn::Module {
    nn::Linear a = add("a", nn::Linear(2, 2));
    nn::Linear also = a;
  };
  auto twice = std::make_unique<Twice>();
  Twice copy = *twice;
  copy.also = nn::Linear(2, 5);
  twice.reset();
  copy.a = nn::Linear(2, 6);
  CHECK(copy.get("a.weight").shape() == Shape{6, 2});
  CHECK(copy.also.weight()->shape() == Shape{5, 2});
}

TEST_CASE("Seats: members in containers", "[nn][assign]") {
  auto one = std::make_unique<Heap>();
  one->layers[1] = nn::Linear(2, 5);
  one->any[0] = nn::Linear(2, 5);
  check_heap(*one);
  nn::Linear local = one->layers[0];
  local = nn::Linear(2, 9);
  check_heap(*one);
  Heap copy = *one;
  for (Heap* s : {one.get(), &copy}) {
    const std::string text = message_of([&] { s->layers[0] = nn::Linear(2, 3); });
    check_mentions(text, {"[module] 'a' is assigned to in one of 2 handles", "; assign before"});
    CHECK_THROWS_AS(s->named.at("c") = nn::Linear(2, 3), Error);
    CHECK_THROWS_AS(s->any[0] = nn::Linear(2, 3), Error);
    CHECK_THROWS_AS(s->scales[0] = nn::Parameter(), Error);
    check_heap(*s);
  }
  nn::Linear later = one->layers[0];  // both structs have theirs
  later = nn::Linear(2, 9);
  check_heap(copy);
  one.reset();
  copy.layers[0] = nn::Linear(2, 3);
  copy.named.at("c") = nn::Linear(2, 4);
  copy.any[0] = nn::Linear(2, 6);
  check_heap(copy);
  CHECK(copy.get("a.weight").shape() == Shape{3, 2});
  CHECK(copy.get("c.weight").shape() == Shape{4, 2});
  CHECK(copy.get("d.weight").shape() == Shape{6, 2});
  Heap moved = std::move(copy);
  moved.layers[0] = nn::Linear(2, 7);
  check_heap(moved);
  const nn::Module kept = moved;
  const nn::Linear b = moved.layers[1];
  Heap other;
  other = moved;
  CHECK_THROWS_AS(other.layers[0] = nn::Linear(2, 3), Error);
  moved = Heap();
  check_heap(moved);
  check_heap(other);
  CHECK(kept.child("b").is_same(b));
  moved.layers[0] = other.layers[0];  // one layer in two modules
  check_heap(moved);
  other.layers[0] = nn::Linear(2, 8);
  check_heap(other);
  check_heap(moved);
  Heap cloned = nn::clone(other);
  cloned.layers[0] = nn::Linear(2, 1);
  cloned.any[0] = nn::Linear(2, 1);
  check_heap(cloned);
  check_heap(other);
}

TEST_CASE("Seats: threads copy one struct, and change their own clones", "[nn][assign]") {
  const Heap shared;
  const Headed<Flat<3>> flat;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const Heap copy = shared;
        const Headed<Flat<3>> other = flat;
        Headed<Flat<3>> own = nn::clone(other);
        own.head = nn::Linear(2, 4);
        wrong += own.get("head.weight").size(0) != 4 || !copy.child("a").is_same(shared.layers[0]);
        wrong += other.state_dict().size() != flat.named_parameters().size();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  check_heap(shared);
}

TEST_CASE("Seats: through a reference to its base a struct is not assigned to", "[nn][assign]") {
  Flat<2> net;
  nn::Module& base = net.layers[0];
  const std::string text = message_of([&] { base = nn::Linear(2, 5); });
  check_mentions(text, {"[module]", "Linear", "through a reference to its base"});
  const nn::Linear other(2, 5);
  CHECK_THROWS_AS(base = other, Error);
  CHECK(net.child("0").is_same(net.layers[0]));
  CHECK(net.layers[0].weight().is_same(net.get("0.weight")));
  nn::Module any = other;  // a handle that is no more than a Module is one to anything
  any = net.layers[0];
  CHECK(any.is_same(net.layers[0]));
}
