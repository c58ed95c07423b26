#include <cotangent/core/memory/allocator.h>

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/core/memory/block_plan_internal.h>
#include <cotangent/nn/capture/capture.h>

#include "tests/capture_testing.h"
#include "tests/catch.h"

// Memory of captured steps: replays take none, and recordings share it without writing over what stays.

using namespace ct;
using namespace ct::testing;
using Catch::Matchers::Contains;

namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void check_growth(Device device) {
  const std::vector<Batch> data = batches(2, 7, device);
  Net net({.device = device});
  auto step = net.captured();
  int effects = 0;
  auto whole = [&](const Batch& b) {
    step(b.x, b.y);
    ++effects;
  };
  // The first replays pay for what a driver and a heap keep.
  const std::int64_t first = device.is_cuda() ? 20'000 : 1000;
  for (std::int64_t i = 0; i < first; ++i) whole(data[static_cast<std::size_t>(i % 2)]);
  CHECK(step.memory() > 0);
  const std::size_t in_use = memory_stats(device).in_use, held = step.memory(), calls = step.kernels().size();
  const std::uint64_t asked = memory_stats(device).allocations;
  [[maybe_unused]] const std::size_t resident = resident_bytes();
  const char* const wanted = std::getenv("COTANGENT_TEST_REPLAYS");
  const std::size_t replays = wanted ? static_cast<std::size_t>(std::atoll(wanted)) : 100'000;
  for (std::size_t i = 0; i < replays; ++i) whole(data[i % 2]);
  CHECK(memory_stats(device).in_use == in_use);
  CHECK(memory_stats(device).allocations == asked);
  CHECK(step.memory() == held);
  CHECK(step.kernels().size() == calls);
  CHECK(step.recordings() == 2);
  CHECK(step.replays() == static_cast<std::int64_t>(replays) + first - 3);
  // 10 bytes a replay; on a GPU the driver's own threads take and give back a few MiB.
#ifndef CT_SANITIZED  // freed blocks are kept back
  if (replays >= 100'000) CHECK(resident_bytes() < resident + (device.is_cuda() ? 32 : 1) * MiB);
#endif
}

// Work with large tensors that live within it, and a result of its own.
Tensor work(const Tensor& x) { return (((x * 2).exp() + 1).log() * x).sum(); }

void check_shapes(Device device) {
  const NoGrad off;
  const TensorOptions on{.device = device};
  auto f = capture([](const Tensor& x) { return work(x); });
  const Tensor large = rand({6, 256, 1024}, on), small = rand({5, 256, 1024}, on);
  const Tensor right[] = {work(large), work(small)};
  for (int i = 0; i < 4; ++i) f(large);
  const std::size_t one = f.memory();
  CHECK(one >= 12 * MiB);
  for (int i = 0; i < 4; ++i) f(small);
  CHECK(f.memory() <= one + 4 * MiB);
  for (int i = 0; i < 4; ++i) {
    CHECK(equal(f(large), right[0]));
    CHECK(equal(f(small), right[1]));
  }
  CHECK(f.recordings() == 4);
  const std::size_t before = memory_stats(device).reserved;
  f.reset();
  CHECK(f.memory() == 0);
  CHECK(memory_stats(device).reserved <= before - 12 * MiB);
}

// A micro-step and one with an update: two recordings of one function, or two functions.
void check_micro_steps(Device device) {
  manual_seed(1);
  nn::Sequential net(nn::Linear(64, 256), nn::GELU(), nn::Linear(256, 256), nn::GELU(), nn::Linear(256, 8));
  net.to(device);
  optim::AdamW adam(net.parameters(), {.lr = 1e-3});
  const Tensor x = randn({4096, 64}, {.device = device}), y = randint(0, 8, {4096}).to(device);
  const auto micro = [&](const Tensor& a, const Tensor& b, bool update) {
    Tensor loss = cross_entropy(net.forward(a), b);
    loss.backward();
    if (update) adam.step(), adam.zero_grad(false);
    return loss;
  };
  const auto train = [&](auto& a, auto& b) {
    for (int i = 0; i < 16; ++i) i % 2 == 0 ? a(x, y, false) : b(x, y, true);
  };
  auto alone = capture(micro);
  for (int i = 0; i < 4; ++i) alone(x, y, true);
  const std::size_t one = alone.memory();
  CHECK(one >= 16 * MiB);
  auto both = capture(micro);
  train(both, both);
  CHECK(both.replays() > 8);
  CHECK(both.memory() <= one + 4 * MiB);
  CapturePool pool;
  auto first = capture(micro, {.pool = pool}), second = capture(micro, {.pool = pool});
  train(first, second);
  CHECK(second.replays() > 3);
  const std::size_t apart = first.memory();
  CHECK(apart <= one + 4 * MiB);
  CHECK(second.memory() <= one + 4 * MiB);
  first.reset();
  CHECK(second.memory() >= 16 * MiB);
  second(x, y, true);
}

// Tensors of one step that the program keeps are not another step's to write.
void check_kept(Device device) {
  const NoGrad off;
  const TensorOptions on{.device = device};
  CapturePool pool;
  Tensor kept[2];
  std::vector<Tensor> later;
  int calls = 0;
  auto other = capture([](const Tensor& x) { return work(x); }, {.pool = pool});
  auto f = capture(
      [&](const Tensor& x, bool second) {
        kept[second] = x * 2;
        const Tensor more = x * 3;
        if (++calls == 6) later.push_back(more);  // in the last recording alone: nobody could know
        return (kept[second] + more).sum();
      },
      {.pool = pool});
  const Tensor big = rand({512, 1024}, on), right = work(big);
  const auto use_others = [&] {
    for (int i = 0; i < 4; ++i) CHECK(equal(other(big), right));
  };
  use_others();
  CHECK(other.recordings() == 2);
  for (int i = 1; i < 10; ++i) {
    const Tensor a = full({256, 1024}, i, on), b = full({256, 1024}, -i, on);
    const Tensor sum = f(a, false), sum_b = f(b, true);
    use_others();
    CHECK(equal(kept[0], a * 2));
    CHECK(equal(kept[1], b * 2));
    CHECK(equal(sum, (a * 2 + a * 3).sum()));
    CHECK(equal(sum_b, (b * 2 + b * 3).sum()));
    if (!later.empty()) CHECK(equal(later[0], b * 3));
  }
  CHECK(later.size() == 1);
  CHECK(f.replays() >= 8);
  CHECK(other.recordings() == 4);  // it had to leave the memory in which `later` lies
}

}  // namespace

TEST_CASE("100,000 replays take no memory and hold none", "[capture]") { check_growth(cpu); }
TEST_CASE("100,000 replays take no memory and hold none on a GPU", "[capture][cuda]") {
  check_growth(cuda(0));
}
TEST_CASE("recordings of several shapes need as much memory as the largest", "[capture]") {
  check_shapes(cpu);
}
TEST_CASE("recordings of micro-steps need as much memory as the largest", "[capture]") {
  check_micro_steps(cpu);
}
TEST_CASE("shared memory of captured steps leaves alone what somebody keeps", "[capture]") {
  check_kept(cpu);
}
TEST_CASE("recordings share memory on a GPU", "[capture][cuda]") {
  check_shapes(cuda(0));
  check_micro_steps(cuda(0));
  check_kept(cuda(0));
}

TEST_CASE("captured functions that share memory take turns", "[capture]") {
  CapturePool pool;
  const Tensor x = rand({64, 1024});
  auto inner = capture(work, {.pool = pool});
  auto outer = capture(
      [&](const Tensor& a) {
        Tensor sum = work(a);
        at_replay([&] { inner(x); });
        return sum;
      },
      {.pool = pool});
  outer(x);
  CHECK_THROWS_WITH(outer(x), Contains("an effect of a step that shares its memory"));
  CHECK(equal(inner(x), work(x)));

  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      const NoGrad off;
      const Tensor mine = full({16 + t, 1024}, 0.1 * t), right = work(mine);
      auto f = capture(work, {.pool = pool});
      for (int i = 0; i < 50; ++i) wrong += !equal(f(mine), right);
      wrong += f.replays() != 47;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a plan of a step's blocks sends what outlives it elsewhere", "[capture]") {
  const MemoryPoolId stays = make_memory_pool(cpu), goes = make_memory_pool(cpu);
  const auto bytes = [](std::int64_t n) { return Tensor::allocate({n}, u8, cpu); };
  Tensor kept, stray;
  std::vector<Tensor> caches;
  // One step; gives its blocks, and whether one was where it should not be.
  const auto run = [&](std::vector<detail::BlockPlan::Block> before, bool cache, bool strays) {
    kept = {}, stray = {};
    const MemoryPoolId rest = before.empty() ? stays : goes;
    detail::BlockPlan plan(cpu, stays, rest, std::move(before));
    Tensor cached;
    if (cache) cached = bytes(77);
    const Tensor a = bytes(100);
    CHECK(plan.made(*a.impl()->storage));
    kept = bytes(200);
    Tensor b = bytes(300);
    {
      const MemoryPoolGuard outside(cpu, 0);
      CHECK(!plan.made(*bytes(100).impl()->storage));
    }
    if (strays) stray = b;
    if (cache) caches.push_back(cached);
    const std::size_t common = memory_pool_bytes(cpu, goes);
    b = {};
    const bool bad = plan.finish();
    CHECK(memory_pool_bytes(cpu, goes) == common);
    return std::pair(plan.blocks(), bad);
  };
  const auto [first, bad] = run({}, true, false);
  CHECK(!bad);
  REQUIRE(first.size() == 4);
  CHECK(first[0].stays);                                 // the cache
  CHECK(first[1].stays);                                 // `a` lives until the scope ends
  CHECK(first[2].stays);                                 // kept
  CHECK(!first[3].stays);                                // b
  const auto [second, also] = run(first, false, false);  // the cache does not come again
  CHECK(!also);
  REQUIRE(second.size() == 3);
  CHECK(second[1].stays);
  CHECK(!second[2].stays);
  CHECK(memory_pool_bytes(cpu, goes) > 0);
  CHECK(run(second, false, true).second);
  kept = {}, stray = {}, caches.clear();
  release_memory_pool(cpu, stays);
  release_memory_pool(cpu, goes);
}
