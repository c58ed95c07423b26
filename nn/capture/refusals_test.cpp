#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <tuple>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/nn/capture/capture.h>
#include <cotangent/ops/autocast.h>

#include "tests/capture_testing.h"
#include "tests/catch.h"

// Uses that captures elsewhere get wrong in silence: each is right here, or refused.

using namespace ct;
using namespace ct::testing;
using Catch::Matchers::Contains;

namespace {

template <class Step>
void expect_refused(Step&& step, const std::string& says, int calls = 8) {
  std::string message;
  try {
    for (int i = 0; i < calls; ++i) step(i);
  } catch (const CaptureError& e) { message = e.what(); }
  CHECK_THAT(message, Contains(says));
}

}  // namespace

namespace {
void check_refusals(Device device) {
  const std::vector<Batch> data = batches(1, 7, device);
  const Tensor x = data[0].x, y = data[0].y;
  Net net({.device = device});
  const auto use = [&](auto f, const std::string& says) {
    auto step = capture(f);
    expect_refused([&](int) { step(x, y); }, says);
  };
  SECTION("a value read on the host") {
    use([&](const Tensor& a, const Tensor& b) { return net.step(a, b).item() > 0 ? a : b; }, "[item]");
    use([&](const Tensor& a, const Tensor& b) { return net.step(a, b).to_vector<float>().empty() ? a : b; },
        "[to_vector]");
    use([&](const Tensor& a, const Tensor& b) { return any(isnan(net.step(a, b))) ? a : b; }, "[item]");
  }
  SECTION("a size that values tell") {
    use([&](const Tensor& a, const Tensor&) { return nonzero(a); }, "nonzero");
  }
  SECTION("state that goes on by assignment") {
    Tensor state = zeros({7, 12}, {.device = device});
    use([&](const Tensor& a, const Tensor&) { return state = state * 0.5 + a; }, "copy_");
    std::vector<Tensor> kept{zeros({7, 12}, {.device = device})};
    use([&](const Tensor& a, const Tensor&) { return kept.emplace_back(kept.back() + a); }, "copy_");
  }
  SECTION("a number that changes") {
    int i = 0;
    use([&](const Tensor& a, const Tensor&) { return a * ++i; }, "'");
  }
  SECTION("other work each time") {
    int i = 0;
    use([&](const Tensor& a, const Tensor&) { return ++i % 2 ? exp(a) : sin(a); }, "in the step before");
  }
  SECTION("draws of a generator of its own, seeds") {
    Generator own(4);
    use(
        [&](const Tensor& a, const Tensor&) {
          return a + randn({7, 12}, {.device = device}, own);
        },
        "default_generator");
    use(
        [&](const Tensor& a, const Tensor&) {
          return manual_seed(1), a + randn({7, 12}, {.device = device});
        },
        "default_generator");
  }
  SECTION("an argument changed in place") {
    use([&](const Tensor& a, const Tensor&) { return Tensor(a).mul_(2); }, "argument 0");
  }
  SECTION("an argument that requires a gradient") {
    auto step = capture([](const Tensor& a) { return a * 2; });
    Tensor leaf = x.clone();
    leaf.set_requires_grad();
    CHECK_THROWS_AS(step(leaf), CaptureError);
    CHECK(step(leaf.detach()).defined());
  }
  SECTION("a captured step within another") {
    auto inner = net.captured();
    auto outer = capture([&](const Tensor& a, const Tensor& b) { return inner(a, b); });
    outer(x, y);
    CHECK_THROWS_WITH(outer(x, y), Contains("within another"));
    CHECK(inner(x, y).defined());
  }
  SECTION("a call within itself") {
    std::function<Tensor(const Tensor&)> again;
    auto step = capture([&](const Tensor& a) { return again(a); });
    again = [&](const Tensor& a) { return step(a); };
    CHECK_THROWS_AS(step(x), CaptureError);
  }
  SECTION("more shapes than recordings") {
    auto step = capture([&](const Tensor& a) { return a * 2; }, {.recordings = 3});
    expect_refused([&](int i) { step(randn({4, i + 1})); }, "axis 1 of argument 0");
    CHECK(step(randn({4, 1})).defined());
  }
  SECTION("options") {
    CHECK_THROWS_AS(capture([](const Tensor& a) { return a; }, {.warmup = 0}), ValueError);
    CHECK_THROWS_AS(capture([](const Tensor& a) { return a; }, {.recordings = 0}), ValueError);
  }
  SECTION("another device") {
    if (device.is_cpu()) return;
    const Tensor elsewhere = ones({});
    use([&](const Tensor& a, const Tensor&) { return a + elsewhere.to(device); }, "cpu");
  }
  SECTION("another stream") {
    if (device.is_cpu()) return;
    const Stream other = new_stream(device);
    use(
        [&](const Tensor& a, const Tensor&) {
          const StreamGuard guard(other);
          return a + 1;
        },
        "stream");
  }
  net.step(x, y);  // goes on
}
}  // namespace

TEST_CASE("a captured step refuses what a replay can't do, and plain steps go on", "[capture]") {
  check_refusals(cpu);
}
TEST_CASE("a captured step refuses what a replay can't do on a GPU", "[capture][cuda]") {
  check_refusals(cuda(0));
}

TEST_CASE("an exception in a captured step leaves all usable", "[capture]") {
  const std::vector<Batch> data = batches(1);
  for (const int at : {1, 2, 3}) {
    int calls = 0;
    Net net;
    auto step = capture([&](const Tensor& x, const Tensor& y) {
      const Tensor loss = net.step(x, y);
      if (++calls == at) throw std::runtime_error("of the user");
      return loss;
    });
    for (int i = 1; i < 6; ++i) {
      INFO(at << ' ' << i);
      if (i == at)
        CHECK_THROWS_WITH(step(data[0].x, data[0].y), "of the user");
      else
        CHECK(step(data[0].x, data[0].y).defined());
    }
    CHECK(!default_generator().state().live);
    CHECK(step.replays() == (at == 3 ? 1 : 1));
  }
}

namespace {
void check_between(Device device) {
  const std::vector<Batch> data = batches(10, 7, device);
  // Trains two nets in the same way, `between` done after each step; one captured.
  const auto check = [&](NetOptions options, const std::function<void(Net&, int)>& between) {
    options.device = device;
    std::vector<std::string> results;
    for (const bool captured : {false, true}) {
      Net net(options);
      manual_seed(5);
      auto step = net.captured();
      for (int i = 0; i < 10; ++i) {
        INFO("captured " << captured << ", step " << i);
        const Batch& b = data[static_cast<std::size_t>(i)];
        const Tensor loss =
            captured ? step(b.x.to(options.dtype), b.y) : net.step(b.x.to(options.dtype), b.y).detach();
        between(net, i);
        const std::string result = bytes_of(loss.to(cpu)) + net.result();
        if (captured)
          CHECK((results[static_cast<std::size_t>(i)] == result));
        else
          results.push_back(result);
      }
      if (captured) CHECK(step.replays() > 0);
    }
  };
  SECTION("evaluation") {
    check({.batch_norm = true}, [&](Net& net, int) {
      const NoGrad off;
      net.model.eval();
      net.model.forward(data[0].x);
      net.model.train();
    });
  }
  SECTION("a mode that stays changed") {
    check({}, [&](Net& net, int i) { net.model.train(i % 8 < 4); });
  }
  SECTION("a rate set by hand") {
    check({}, [&](Net& net, int i) {
      if (i > 3) net.optimizer->set_lr(0.1 / i);
    });
  }
  SECTION("plain steps") {
    check({}, [&](Net& net, int i) {
      if (i % 3 == 2) net.step(data[1].x, data[1].y);
    });
  }
  SECTION("gradients let go of") {
    check({}, [](Net& net, int) {
      for (Tensor p : net.model.parameters()) p.set_grad({});
    });
  }
  SECTION("gradients of somebody else") {
    check({}, [](Net& net, int) {
      for (Tensor p : net.model.parameters()) p.set_grad(ones_like(p));
    });
  }
  SECTION("parameters written") {
    for (const DType dtype : {f32, bf16})
      check({.dtype = dtype}, [](Net& net, int i) {
        const NoGrad off;
        if (i == 5)
          for (Tensor p : net.model.parameters()) p.mul_(0.5);
      });
  }
  SECTION("states saved and loaded") {
    StateDict model, optimizer;
    check({}, [&](Net& net, int i) {
      if (i == 4) {
        model = net.model.state_dict(), optimizer = net.optimizer->state_dict();
        for (StateDict* dict : {&model, &optimizer}) {
          StateDict copy = *dict;
          for (const auto& [name, t] : *dict) copy.set(name, t.clone());
          *dict = copy;
        }
      }
      if (i == 7) net.model.load_state_dict(model), net.optimizer->load_state_dict(optimizer);
    });
  }
  SECTION("draws, and a seed") {
    check({}, [](Net&, int i) {
      randn({3});
      if (i == 6) manual_seed(99);
    });
  }
  SECTION("frozen and thawed layers") {
    check({}, [](Net& net, int i) {
      if (i == 4 || i == 7) net.model.parameters()[0].set_requires_grad(i == 7);
    });
  }
  SECTION("a module moved to another dtype and back") {
    check({}, [](Net& net, int i) {
      if (i == 5) net.model.to(f64), net.model.to(f32);
    });
  }
}
}  // namespace

TEST_CASE("what happens between captured steps counts", "[capture]") { check_between(cpu); }
TEST_CASE("what happens between captured steps counts on a GPU", "[capture][cuda]") {
  check_between(cuda(0));
}

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

TEST_CASE("a replay counts as a change of what it writes", "[capture]") {
  const Batch b = batches(1)[0];
  Net net;
  auto step = net.captured();
  for (int i = 0; i < 5; ++i) step(b.x, b.y);
  const Tensor later = net.model.forward(b.x).sum();
  step(b.x, b.y);
  CHECK_THROWS_AS(later.backward(), AutogradError);
}

TEST_CASE("modes of the thread belong to a recording", "[capture]") {
  auto f = capture([](const Tensor& a) { return grad_enabled() ? matmul(a, a) : a; });
  const Tensor a = randn({4, 4});
  for (int i = 0; i < 5; ++i) {
    CHECK(f(a).dtype() == f32);
    {
      const Autocast low(bf16);
      CHECK(f(a).dtype() == bf16);
    }
    const NoGrad off;
    CHECK(equal(f(a), a));
  }
  CHECK(f.recordings() == 6);
}

TEST_CASE("host effects of a captured step", "[capture]") {
  int counted = 0, host = 0;
  const Tensor total = zeros({});
  auto f = capture([&](const Tensor& a) {
    ++host;
    at_replay([&] { ++counted; });
    Tensor(total).add_(1);
    return a;
  });
  for (int i = 1; i <= 9; ++i) {
    f(ones({2}));
    CHECK(counted == i);
  }
  CHECK(host == 3);
  CHECK(total.item() == 9);
  CHECK(f.kernels() == std::vector<std::string>{"add_scalar"});
  CHECK(f.dot().find("c0 [label") != std::string::npos);
  f.reset();
  CHECK(!f.captured());
  CHECK(f.kernels().empty());
  f(ones({2}));
  CHECK(host == 4);
}

namespace {
struct Counter final : Tracer {
  bool begin(const KernelCall& call) override { return names.push_back(call.op.name), false; }
  void end(const KernelCall&) override {}
  std::vector<std::string> names;
};
void check_observed(Device device) {
  const std::vector<Batch> data = batches(8, 7, device);
  Net plain({.device = device}), net({.device = device});
  manual_seed(5);
  for (const auto& [x, y] : data) plain.step(x, y);
  manual_seed(5);
  auto step = net.captured();
  for (int i = 0; i < 6; ++i) step(data[static_cast<std::size_t>(i)].x, data[static_cast<std::size_t>(i)].y);
  Counter seen;
  {
    const TracerScope scope(seen);
    step(data[6].x, data[6].y);
  }
  step(data[7].x, data[7].y);
  CHECK(seen.names.size() >= step.kernels().size());
  CHECK(std::ranges::count(seen.names, "adamw_step") + std::ranges::count(seen.names, "adam_step") == 1);
  CHECK(step.recordings() == 2);
  CHECK((net.result() == plain.result()));
}
}  // namespace

TEST_CASE("observers see the kernels of a replay", "[capture]") { check_observed(cpu); }
TEST_CASE("observers see the kernels of a replay on a GPU", "[capture][cuda]") { check_observed(cuda(0)); }

TEST_CASE("several captured functions share a model", "[capture]") {
  const std::vector<Batch> data = batches(8);
  std::vector<std::string> results;
  for (const bool captured : {false, true}) {
    Net net;
    manual_seed(5);
    const auto evaluate = [&](const Tensor& x) {
      const NoGrad off;
      return softmax(net.model.forward(x), -1);
    };
    auto step = net.captured();
    auto evaluated = capture(evaluate);
    for (std::size_t i = 0; i < data.size(); ++i) {
      const auto& [x, y] = data[i];
      captured ? step(x, y) : net.step(x, y);
      net.model.eval();
      const Tensor p = captured ? evaluated(x) : evaluate(x);
      net.model.train();
      const std::string result = bytes_of(p) + net.result();
      if (captured)
        CHECK((results[i] == result));
      else
        results.push_back(result);
    }
    if (captured) CHECK(evaluated.replays() == 5);
  }
}

namespace {
void check_checks(Device device) {
  // Right steps pass, every one of them checked, and go on to the same bits.
  const std::vector<Batch> data = batches(12, 7, device);
  for (const DType dtype : {f32, bf16}) {
    auto [net, step] = check_same_bits({.batch_norm = true, .device = device, .dtype = dtype}, data,
                                       [](Net& n) { return n.captured({.check_every = 1}); });
    CHECK(step.replays() == 9);
  }
  // A number of the program's that changes once it is recorded.
  double scale = 1;
  Tensor total = zeros({}, {.device = device});
  auto step =
      capture([&](const Tensor& x) { return total.add_((x * scale).sum()), x * 2; }, {.check_every = 2});
  for (int i = 0; i < 6; ++i) step(data[0].x);
  scale = 2;
  CHECK_THROWS_WITH(step(data[0].x), Contains("differ in a tensor of 4 bytes"));
  auto result = capture([&](const Tensor& x) { return x * scale; }, {.check_every = 1});
  for (int i = 0; i < 6; ++i) result(data[0].x);
  scale = 3;
  CHECK_THROWS_WITH(result(data[0].x), Contains("result 0"));
  CHECK_THROWS_AS(capture([](const Tensor& x) { return x; }, {.check_every = -1}), ValueError);
}
}  // namespace

TEST_CASE("checked replays find what a recording can't see", "[capture]") { check_checks(cpu); }
TEST_CASE("checked replays find what a recording can't see on a GPU", "[capture][cuda]") {
  check_checks(cuda(0));
}

TEST_CASE("other threads work beside a captured step", "[capture]") {
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) {
      const Tensor a = randn({16, 16}, {}, *std::make_unique<Generator>(1));
      matmul(a, a).sum().item();
    }
  });
  check_same_bits({}, batches(20));
  stop = true;
  other.join();

  // They draw as before.
  int recorded = 0;
  auto draws = capture([&](const Tensor& x) {
    recorded += default_generator().state().live != nullptr;
    std::thread([] { CHECK(!default_generator().state().live); }).join();
    return dropout(x, 0.5);
  });
  for (int i = 0; i < 5; ++i) draws(ones({8}));
  CHECK(recorded == 2);

  Net net;
  const Batch b = batches(1)[0];
  std::atomic<bool> inside = false, refused = false;
  auto step = capture([&](const Tensor& x, const Tensor& y) {
    inside = true;
    while (!refused) std::this_thread::yield();
    return net.step(x, y);
  });
  std::thread second([&] {
    while (!inside) std::this_thread::yield();
    try {
      step(b.x, b.y);
    } catch (const CaptureError&) { refused = true; }
    refused = true;
  });
  step(b.x, b.y);
  second.join();
  CHECK(refused);
}
