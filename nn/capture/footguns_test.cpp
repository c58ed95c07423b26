#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/nn/capture/capture.h>

#include "tests/capture_testing.h"
#include "tests/catch.h"

// Uses that other captures get wrong: each is right, or refused where it can't be. README.md lists them.

using namespace ct;
using namespace ct::testing;

TEST_CASE("arguments and results of captured functions", "[capture]") {
  SECTION("a number, a flag, an enumerator") {
    enum class Kind { add, multiply };
    auto f = capture([](const Tensor& a, double s, Kind kind, bool negate) {
      const Tensor r = kind == Kind::add ? a + s : a * s;
      return negate ? -r : r;
    });
    for (int i = 0; i < 6; ++i)
      for (const double s : {2.0, 3.0})
        for (const bool negate : {false, true}) {
          const Tensor a = randn({3});
          CHECK(equal(f(a, s, Kind::multiply, negate), a * s * (negate ? -1 : 1)));
        }
    CHECK(f.recordings() == 8);
  }
  SECTION("tuples, lists, nothing") {
    auto pair =
        capture([](const Tensor& a, const Tensor& b) { return std::pair(a + b, std::tuple(a, a * b)); });
    auto list = capture([](const Tensor& a) { return std::vector<Tensor>{a, a + 1, Tensor()}; });
    Tensor total = zeros({4});
    auto nothing = capture([&](const Tensor& a) { total.add_(a); });
    Tensor sum = zeros({4});
    for (int i = 0; i < 6; ++i) {
      const Tensor a = randn({4}), b = randn({4});
      const auto [c, de] = pair(a, b);
      CHECK(equal(c, a + b));
      CHECK(equal(std::get<1>(de), a * b));
      const std::vector<Tensor> l = list(a);
      REQUIRE(l.size() == 3);
      CHECK(equal(l[0], a));
      CHECK(equal(l[1], a + 1));
      CHECK(!l[2].defined());
      nothing(a);
      sum.add_(a);
      CHECK(equal(total, sum));
    }
    CHECK(nothing.replays() == 3);
  }
  SECTION("layouts, empty and undefined tensors") {
    auto f = capture([](const Tensor& a, const Tensor& b) { return b.defined() ? a + b : a * 2; });
    for (int i = 0; i < 5; ++i) {
      const Tensor a = randn({4, 3});
      CHECK(equal(f(a.t(), Tensor()), a.t() * 2));
      CHECK(equal(f(a, a), a + a));
      CHECK(equal(f(a, randn({1, 3}).expand({4, 3}).mul(0)), a));
      CHECK(f(a.slice(0, 0, 0), Tensor()).numel() == 0);
    }
    CHECK(f.recordings() == 6);
  }
  SECTION("a result as the next argument") {
    auto f = capture([](const Tensor& a) { return a * 1.5 + 1; });
    Tensor a = ones({3}), b = ones({3});
    for (int i = 0; i < 7; ++i) {
      a = f(a), b = b * 1.5 + 1;
      CHECK(equal(a, b));
    }
  }
  SECTION("results are written over by the next call") {
    auto f = capture([](const Tensor& a) { return a + 1; });
    for (int i = 0; i < 3; ++i) f(zeros({2}));
    const Tensor first = f(zeros({2})), kept = first.clone();
    f(ones({2}));
    CHECK(equal(first, full({2}, 2)));
    CHECK(equal(kept, ones({2})));
  }
  SECTION("results are detached from the first call on") {
    Net net;
    const Batch b = batches(1)[0];
    auto step = net.captured();
    for (int i = 0; i < 5; ++i) CHECK(!step(b.x, b.y).requires_grad());
  }
}

TEST_CASE("uses that captures elsewhere get wrong", "[capture]") {
  SECTION("a result is the next argument, then another tensor is") {
    auto step = capture([](const Tensor& x) {
      const Tensor y = x + 1;
      return y * 2;
    });
    step(full({1}, 10));
    Tensor x = step(full({1}, 20));
    for (int i = 0; i < 3; ++i) x = step(x);
    CHECK(x.item() == 350);
    Tensor y = full({1}, 100);
    for (int i = 0; i < 3; ++i) y = step(y);
    CHECK(y.item() == 814);
  }
  SECTION("results that are views of one another go back in") {
    auto push = capture([](const Tensor& buffer, const Tensor& frame) {
      const Tensor next = concat({buffer.slice(0, 1, 4), frame}, 0);
      return std::tuple(next, next.slice(0, 0, 1));
    });
    Tensor buffer = zeros({4, 2}), right = zeros({4, 2});
    for (int i = 0; i < 8; ++i) {
      const Tensor frame = full({1, 2}, i + 1);
      const auto [next, first] = push(buffer, frame);
      right = concat({right.slice(0, 1, 4), frame}, 0);
      CHECK(equal(next, right));
      CHECK(equal(first, right.slice(0, 0, 1)));
      buffer = next;
    }
  }
  SECTION("a place that a number tells is written") {
    const Tensor cache = zeros({4, 4});
    auto write = capture([&](std::int64_t at) {
      Tensor(cache).slice(0, at, at + 1).copy_(ones({1, 4}));
      return cache.sum();
    });
    for (int round = 0; round < 5; ++round)
      for (std::int64_t at = 0; at < 4; ++at) {
        Tensor(cache).zero_();
        CHECK(write(at).item() == 4);
        CHECK(cache.slice(0, at, at + 1).sum().item() == 4);
      }
    CHECK(write.replays() == 8);
  }
  SECTION("a result whose size follows the argument's") {
    auto padded = capture([](const Tensor& a) {
      return concat({a + 1, zeros({a.size(0), 10 - a.size(1)})}, 1);
    });
    for (int round = 0; round < 5; ++round)
      for (int i = 1; i < 5; ++i) CHECK(padded(ones({3, i})).sum().item() == 3 * 2 * i);
    CHECK(padded.replays() == 8);
  }
  SECTION("views of one tensor at several places") {
    auto f = capture([](const Tensor& a) { return a + 1; });
    const Tensor base = randn({10, 10});
    for (int i = 0; i < 8; ++i) CHECK(equal(f(base.slice(1, i, i + 2)), base.slice(1, i, i + 2) + 1));
    CHECK(f.recordings() == 2);
  }
  SECTION("a number as a tensor") {
    auto f = capture([](const Tensor& a, const Tensor& b) { return a * b; });
    for (int i = 0; i < 6; ++i) CHECK(equal(f(full({3}, 2), full({}, i)), full({3}, 2.0 * i)));
  }
  SECTION("a tensor of the program that is changed in place") {
    const Tensor state = zeros({2});
    auto f = capture([&] { return state * 2; });
    for (int i = 0; i < 6; ++i) {
      Tensor(state).fill_(i);
      CHECK(equal(f(), full({2}, 2.0 * i)));
    }
    CHECK(f.replays() == 3);
  }
  SECTION("a tensor of the program that another one takes the place of") {
    Tensor weight = full({2}, 3);
    auto f = capture([&](const Tensor& a) { return a * weight; });
    auto same = capture([&](const Tensor& a) { return a + weight; });
    for (int i = 0; i < 15; ++i) {
      if (i % 5 == 4) weight = full({2}, i);
      CHECK(equal(f(ones({2})), weight));
      CHECK(equal(same(zeros({2})), weight));
    }
    CHECK(f.replays() > 3);
  }
  SECTION("a branch that a flag takes") {
    auto f = capture([](const Tensor& x, bool square) { return square ? x * x : x * 2; });
    for (int i = 0; i < 8; ++i) CHECK(f(full({1}, 3), i % 3 == 0).item() == (i % 3 == 0 ? 9 : 6));
  }
  SECTION("one function, several objects") {
    struct Model {
      Tensor scale;
      Captured<std::function<Tensor(const Tensor&)>> forward =
          capture(std::function<Tensor(const Tensor&)>([this](const Tensor& x) { return x * scale; }));
    };
    Model two{full({1}, 2)}, three{full({1}, 3)};
    for (int i = 0; i < 6; ++i) {
      CHECK(two.forward(full({1}, 5)).item() == 10);
      CHECK(three.forward(full({1}, 5)).item() == 15);
    }
  }
  SECTION("no work at all") {
    auto f = capture([](const Tensor&) {});
    auto g = capture([](const Tensor& x) { return x; });
    for (int i = 0; i < 6; ++i) {
      f(ones({1}));
      CHECK(g(full({1}, i)).item() == i);
    }
    CHECK(g.captured());
  }
  SECTION("draws differ from call to call, and are those of the plain step") {
    auto f = capture([](const Tensor& x) { return x + rand({3}); });
    manual_seed(4);
    std::vector<Tensor> drawn;
    for (int i = 0; i < 8; ++i) drawn.push_back(f(zeros({3})).clone());
    manual_seed(4);
    for (int i = 0; i < 8; ++i) CHECK(equal(drawn[static_cast<std::size_t>(i)], rand({3})));
  }
  SECTION("an undefined gradient that was defined, and back") {
    Net net;
    const std::vector<Batch> data = batches(20);
    auto step = capture([&](const Tensor& x, const Tensor& y) {
      Tensor loss = cross_entropy(net.model.forward(x), y);
      loss.backward();
      return loss;
    });
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (i % 4 == 0) net.optimizer->zero_grad();
      step(data[i].x, data[i].y);
      CHECK(net.model.parameters()[0].grad().defined());
    }
    CHECK(step.replays() > 3);
  }
}
