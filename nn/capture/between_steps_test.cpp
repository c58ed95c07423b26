#include <malloc.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/nn/capture/capture.h>
#include <cotangent/nn/profile/profile.h>
#include <cotangent/ops/autocast.h>

#include "tests/capture_testing.h"
#include "tests/catch.h"

// The program around a captured step goes on as it does around a plain one.

using namespace ct;
using namespace ct::testing;

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
        const bool ready = step.ready(b.x.to(options.dtype), b.y);
        const std::int64_t replays = step.replays();
        const Tensor loss =
            captured ? step(b.x.to(options.dtype), b.y) : net.step(b.x.to(options.dtype), b.y).detach();
        CHECK(ready == (step.replays() > replays));
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
  SECTION("a module gets a hook, and loses it") {
    nn::HookHandle handle;
    check({}, [&](Net& net, int i) {
      if (i == 4)
        handle = net.model.children()[1].value.register_forward_hook(
            [](const nn::Module&, const Tensor&, const Tensor& y) { return y * 0.5; });
      if (i == 7) handle.remove();
    });
  }
  SECTION("a module's hook takes the place of another") {
    nn::HookHandle handle;
    check({}, [&](Net& net, int i) {
      if (i == 0 || i == 5) {
        handle.remove();
        handle = net.model.children()[1].value.register_forward_pre_hook(
            [i](const nn::Module&, const Tensor& x) { return x * (1 + i); });
      }
    });
  }
  SECTION("a parameter gets a hook, and loses it") {
    std::uint64_t id = 0;
    check({}, [&](Net& net, int i) {
      const Tensor p = net.model.parameters()[0];
      if (i == 4) id = p.register_hook([](const Tensor& g) { return g * 0.5; });
      if (i == 6) {
        p.remove_hook(id);
        id = p.register_hook([](const Tensor& g) { return g * 0.25; });
      }
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
  const TempFolder folder;
  f.write_dot(folder / "step.dot");
  CHECK(folder.read("step.dot") == f.dot());
  CHECK(folder.count() == 1);
  CHECK_THROWS_AS(f.write_dot(folder / "none/step.dot"), IoError);
  f.reset();
  CHECK(!f.captured());
  CHECK(f.kernels().empty());
  f(ones({2}));
  CHECK(host == 4);
}

TEST_CASE("guards of a captured step: one for each key", "[capture]") {
  int asked[3] = {};
  bool holds = true;
  int key = 0;
  auto f = capture([&](const Tensor& a) {
    if (Recording* const step = ct::detail::recording())
      for (int i = 0; i < 3; ++i) {
        step->guard(
            "what every step of it has", [&asked, i] { return ++asked[i] > 0; }, true, false,
            i < 2 ? &key : nullptr);
        step->guard(
            "a thing that is gone", [&holds] { return holds; }, false, false, &holds);
      }
    return a + 1;
  });
  for (int i = 0; i < 6; ++i) f(ones({2}));
  CHECK(f.replays() == 3);
  CHECK(asked[0] > 0);
  CHECK(asked[1] == 0);  // the second with that key
  CHECK(asked[2] == asked[0]);
  holds = false;
  const std::int64_t before = f.replays();
  f(ones({2}));
  CHECK(f.replays() == before);
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

TEST_CASE("kernels of a replay have ops in a profile", "[capture][profile][cuda]") {
  const std::vector<Batch> data = batches(2, 7, cuda(0));
  Net net({.device = cuda(0)});
  auto step = net.captured();
  for (std::size_t i = 0; i < 6; ++i) step(data[i % 2].x, data[i % 2].y);
  const Profile p = profile([&] {
    for (std::size_t i = 0; i < 10; ++i) step(data[i % 2].x, data[i % 2].y);
  });
  std::int64_t all = 0, none = 0;
  for (const ProfileRow& row : p.rows()) {
    all += row.kernels;
    if (row.op == "(no op)") none += row.kernels;
  }
  if (all > 0) CHECK(all > 150);  // events tell no kernels
  CHECK(none <= 10);              // the mailbox's copies
  CHECK(step.recordings() == 2);
  step(data[0].x, data[0].y);  // a graph again
  CHECK(step.replays() == 14);
}

TEST_CASE("a profile of a captured step leaves nothing behind on a GPU", "[capture][profile][cuda]") {
  const std::vector<Batch> data = batches(2, 7, cuda(0));
  for (int round = 0; round < 3; ++round) {
    Net net({.device = cuda(0)});
    auto step = net.captured();
    for (std::size_t i = 0; i < 6; ++i) step(data[i % 2].x, data[i % 2].y);
    const Profile p = profile([&] { step(data[0].x, data[0].y); });
    std::int64_t kernels = 0;
    for (const ProfileRow& row : p.rows())
      if (row.op != "(no op)") kernels += row.kernels;
    INFO("round " << round);
    CHECK((kernels == 0 || kernels > 15));  // events tell no kernels
    CHECK(step.recordings() == 2);
  }
  Net net({.device = cuda(0)});
  auto step = net.captured();
  for (std::size_t i = 0; i < 6; ++i) step(data[i % 2].x, data[i % 2].y);
  Tensor x = zeros({8}, {.device = cuda(0)});
  const auto launches = [&](int count) {
    for (int i = 0; i < count; ++i) x.add_(1);
    synchronize(cuda(0));
    return mallinfo2().uordblks;
  };
  const std::size_t before = launches(100);
  CHECK(launches(4000) <= before + (16 << 10));  // four bytes a launch
}

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
