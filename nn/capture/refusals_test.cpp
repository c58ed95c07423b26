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
    Tensor here = ones({}, {.device = device});
    use([&](const Tensor& a, const Tensor&) { return a + here.copy_(elsewhere); },
        "give them as an argument");
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

TEST_CASE("a loader's thread on the same GPU breaks no recording", "[capture][cuda]") {
  std::atomic<bool> stop = false;
  std::atomic<int> loaded = 0;
  std::thread loader([&] {
    while (!stop) {
      const Tensor batch = randn({64, 64}, {}, *std::make_unique<Generator>(1)).to(cuda(0));
      loaded += batch.sum().item() != 0;  // waits for the stream
      synchronize(cuda(0));               // and for the device
    }
  });
  for (int i = 0; i < 20; ++i) {
    auto [net, step] = check_same_bits({.device = cuda(0)}, batches(12, 7, cuda(0)));
    CHECK(step.replays() == 9);
  }
  stop = true;
  loader.join();
  CHECK(loaded > 0);
}

TEST_CASE("numbers of each step reach a GPU that is far behind, on any stream", "[capture][cuda]") {
  // Each rate is a power of two: the sum tells which of them arrived.
  const Device device = cuda(0);
  const Tensor weight = ones({1}, {.device = device}).set_requires_grad();
  optim::SGD sgd({weight}, {.lr = 1});
  const Tensor busy = randn({2048, 2048}, {.device = device});
  auto step = capture([&](const Tensor& x) {
    sgd.zero_grad();
    (weight * x).sum().backward();
    sgd.step();
    return matmul(busy, busy).slice(0, 0, 1);
  });
  const Stream other = new_stream(device);
  double right = 1;
  for (int i = 0; i < 300; ++i) {
    const double rate = 1.0 / (1 << (i % 7));
    sgd.set_lr(rate);
    right -= rate;
    if (i % 50 < 40) {
      step(ones({1}, {.device = device}));
      continue;
    }
    const Tensor x = ones({1}, {.device = device});
    // The input is the default stream's, which may have its memory again once `other` has read it.
    synchronize(device);
    x.impl()->storage->record_stream(other);
    const StreamGuard guard(other);
    step(x);
  }
  synchronize(device);
  CHECK(weight.detach().to(cpu).item() == right);
  CHECK(step.replays() > 250);
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

TEST_CASE("check mode: gradients that lie in one storage", "[capture]") {
  Tensor flat = zeros({6}), a = ones({2}), b = ones({4});
  a.set_requires_grad(), b.set_requires_grad();
  a.set_grad(flat.narrow(0, 0, 2)), b.set_grad(flat.narrow(0, 2, 4));
  auto step = capture(
      [&](const Tensor& x) {
        {
          const NoGrad off;
          flat.zero_();
        }
        const Tensor loss = (a * x).sum() + (b * b).sum() * x.sum();
        loss.backward();
        return loss;
      },
      {.check_every = 1});
  for (int i = 0; i < 6; ++i) CHECK_NOTHROW(step(full({2}, i)));
  CHECK(step.replays() == 3);
  CHECK(flat.to_vector<float>() == std::vector<float>{5, 5, 20, 20, 20, 20});
}
