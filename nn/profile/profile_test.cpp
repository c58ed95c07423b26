#include <cotangent/nn/profile/profile.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>

#include "tests/catch.h"
#include "tests/training_testing.h"

using namespace ct;
using namespace ct::testing;

namespace {

// Sees what a profile should see.
struct Counter final : Tracer {
  bool begin(const KernelCall& call) override {
    ++calls[{call.op.name, call.backward != nullptr}];
    return false;
  }
  void end(const KernelCall&) override {}
  std::map<std::pair<std::string, bool>, std::int64_t> calls;
};

// A small network and its step.
struct Step {
  Step() {
    manual_seed(4);
    net = nn::Sequential(nn::Linear(20, 32), nn::GELU(), nn::LayerNorm(32), nn::Linear(32, 7));
    x = randn({9, 20});
    y = randint(0, 7, {9});
  }
  void operator()() {
    optim::SGD sgd(net.parameters(), {.lr = 0.1});
    sgd.zero_grad();
    cross_entropy(net.forward(x), y).backward();
    sgd.step();
  }
  nn::Sequential net;
  Tensor x, y;
};

const ProfileRow* find(const std::vector<ProfileRow>& rows, const std::string& op, bool backward) {
  const auto found = std::ranges::find_if(
      rows, [&](const ProfileRow& row) { return row.op == op && row.backward == backward; });
  return found == rows.end() ? nullptr : &*found;
}

// An op whose kernel calls others, and throws where it is told to.
constexpr InputDef kIn[] = {{.name = "x", .gradient = false}};
constexpr OutputDef kOut[] = {{.name = "y", .gradient = false}};
bool throws = false;
void outer_forward(const Forward& call) {
  Tensor y = call.out();
  for (int i = 0; i < 3; ++i) y.copy_(exp(call.in(0)));
  if (throws) throw ValueError("[outer] told to");
}
constexpr OpDef k_outer = checked({
    .name = "outer\"\n",
    .formula = "y = exp(x)",
    .inputs = kIn,
    .outputs = kOut,
    .infer = [](Infer& i) { i.output(i.in(0).shape(), i.in(0).dtype()); },
    .cpu = {outer_forward},
});
Tensor outer(const Tensor& x) { return dispatch(k_outer, {x}); }

}  // namespace

TEST_CASE("a profile has a row for each op and direction, with every call", "[profile]") {
  Step step;
  step();
  Counter counter;
  Profile p;
  {
    const TracerScope scope(counter);
    p = profile([&] {
      for (int i = 0; i < 3; ++i) step();
    });
  }
  const std::vector<ProfileRow> rows = p.rows();
  CHECK(rows.size() == counter.calls.size());
  double self = 0, least = 0;
  for (const ProfileRow& row : rows) {
    INFO(row.op);
    CHECK(row.calls == counter.calls[{row.op, row.backward}]);
    CHECK(row.self_us >= 0);
    CHECK(row.total_us >= row.self_us);
    CHECK(row.device == cpu);
    CHECK(row.limit >= 0);
    CHECK(row.limit < 1.05);
    if (row.op == "linear" || row.op == "gelu" || row.op == "layer_norm") CHECK(row.limit > 0);
    CHECK(row.kept == 0);
    self += row.self_us, least += row.limit * row.total_us;
  }
  CHECK(self > 0);
  CHECK(self <= 1e6 * p.seconds);
  CHECK(std::ranges::is_sorted(rows, std::greater<>(), &ProfileRow::self_us));
  CHECK(p.least_seconds() > 0);
  CHECK(1e6 * p.least_seconds() <= Approx(least));
  CHECK(p.least_seconds() < p.seconds);
  CHECK(p.peaks.empty());
  CHECK(p.waits == 0);

  std::ostringstream text;
  text << p;
  CHECK(text.str().starts_with("op"));
  CHECK(text.str().find("linear") != std::string::npos);
  CHECK(text.str().find("(gaps)") != std::string::npos);
  CHECK(text.str().find("of its limit") != std::string::npos);
}

TEST_CASE("operations and bytes of a profile follow from the op's cost", "[profile]") {
  const Tensor a = randn({30, 40}).set_requires_grad(), b = randn({40, 50}).set_requires_grad();
  const Tensor c = randn({5, 6}).set_requires_grad(), d = randn({5, 6}).set_requires_grad();
  const Tensor wide = randn({1, 40}).expand({30, 40});
  const std::vector<ProfileRow> rows = profile([&] {
                                         matmul(a, b).backward(ones({30, 50}));
                                         add(wide, wide);
                                         sub(c, d).backward(ones({5, 6}));
                                       }).rows();
  const double flops = 2.0 * 30 * 40 * 50, elements = 30 * 40 + 40 * 50 + 30 * 50;
  const ProfileRow &forward = *find(rows, "matmul", false), &backward = *find(rows, "matmul", true);
  CHECK(forward.flops == flops);
  CHECK(forward.bytes == 4 * elements);
  CHECK(backward.flops == 2 * flops);
  CHECK(backward.bytes == 4 * (elements + 30 * 40 + 40 * 50));
  CHECK(find(rows, "sub", true)->bytes == 2 * 4 * 5 * 6);  // -g is computed, and g handed on as it is
  CHECK(find(rows, "add", false)->bytes ==
        4 * (40 + 30 * 40));  // the row that both inputs are, and the result
}

TEST_CASE("a call within a kernel is told apart from it", "[profile]") {
  const Tensor x = randn({1000, 100});
  const Profile p = profile([&] { outer(x); });
  const std::vector<ProfileRow> rows = p.rows();
  const ProfileRow& whole = *find(rows, "outer\"\n", false);
  const ProfileRow& inner = *find(rows, "exp", false);
  CHECK(inner.calls == 3);
  CHECK(inner.total_us == inner.self_us);
  CHECK(whole.total_us >= inner.total_us);
  CHECK(whole.self_us < whole.total_us);
  for (const Profile::Call& c : p.calls) CHECK((c.parent == -1) == (p.ops[c.op] == "outer\"\n"));
}

TEST_CASE("a profile ends with the exception of its function, and leaves nothing behind", "[profile]") {
  const Tensor x = ones({3});
  throws = true;
  CHECK_THROWS_AS(profile([&] { outer(x); }, {.memory = true}), ValueError);
  CHECK_THROWS_AS(profile([&] { matmul(x, ones({4})); }), ShapeError);
  const Profile caught = profile([&] { CHECK_THROWS_AS(outer(x), ValueError); });
  throws = false;
  CHECK(caught.calls.size() == 7);
  CHECK(caught.calls[0].us > 0);
  for (std::size_t i = 1; i < 7; ++i) CHECK(caught.calls[i].parent == 0);
  CHECK(detail::g_tracers == 0);
  CHECK(profile([&] { exp(x); }, {.memory = true}).calls.size() == 1);
}

TEST_CASE("a profile of nothing is empty", "[profile]") {
  const Profile p = profile([] {}, {.memory = true});
  CHECK(p.rows().empty());
  CHECK(p.least_seconds() == 0);
  CHECK(p.seconds > 0);
  std::ostringstream text;
  p.table(text);
  CHECK(text.str().find("(gaps)") != std::string::npos);
  CHECK(Profile{}.rows().empty());
  Profile{}.table(text);
}

TEST_CASE("a profile sees the calls of its own thread", "[profile]") {
  const Tensor x = ones({3});
  std::optional<Profile> of_other;
  const Profile p = profile([&] {
    std::thread other([&] { of_other = profile([&] { exp(x), exp(x), log(x); }); });
    sin(x);
    other.join();
  });
  CHECK(p.ops == std::vector<std::string>{"sin"});
  CHECK(of_other->ops == std::vector<std::string>{"exp", "log"});
  CHECK(of_other->calls.size() == 3);
}

TEST_CASE("profiles nest, but for what follows the memory", "[profile]") {
  const Tensor x = ones({3});
  Profile inner;
  const Profile p = profile([&] {
    sin(x);
    inner = profile([&] { exp(x); }, {.memory = true});
    sin(x);
  });
  CHECK(inner.ops == std::vector<std::string>{"exp"});
  CHECK(p.ops == std::vector<std::string>{"sin", "exp"});
  CHECK_THROWS_WITH(profile([&] { profile([] {}, {.memory = true}); }, {.memory = true}),
                    Catch::Contains("followed already"));
  Profiler once;
  CHECK(once.stop().calls.empty());
  CHECK_THROWS_WITH(once.stop(), Catch::Contains("has been stopped"));
  Profiler here;
  std::thread([&] { CHECK_THROWS_WITH(here.stop(), Catch::Contains("another thread")); }).join();
  exp(x);
  CHECK(here.stop().calls.size() == 1);
}

TEST_CASE("the peak of memory is told by the ops that made what lives there", "[profile]") {
  const auto mib = [](std::size_t n) { return n << 20; };
  const Tensor x = ones({1 << 18});  // 1 MiB
  Tensor kept;
  const Profile p = profile(
      [&] {
        kept = exp(x);
        { const Tensor brief = concat({sin(x), sin(x), sin(x)}); }
        cos(x);
      },
      {.memory = true});
  const auto found = std::ranges::find(p.peaks, cpu, &Profile::Peak::device);
  REQUIRE(found != p.peaks.end());
  const Profile::Peak& peak = *found;
  CHECK(peak.device == cpu);
  CHECK(peak.op == "concat");
  CHECK(peak.direction == "fwd");
  const auto of = [&](const std::string& op) {
    for (const Profile::Owner& owner : peak.owners)
      if (owner.op == op) return owner.bytes;
    return std::size_t{0};
  };
  CHECK(of("exp") == mib(1));
  CHECK(of("sin") == mib(3));
  CHECK(of("concat") == mib(3));
  CHECK(of("cos") == 0);
  std::size_t sum = 0;
  for (const Profile::Owner& owner : peak.owners) sum += owner.bytes;
  CHECK(sum == peak.bytes);
  CHECK(peak.bytes >= mib(8));
  CHECK(find(p.rows(), "sin", false)->kept == static_cast<std::int64_t>(mib(3)));
  std::ostringstream text;
  p.table(text);
  CHECK(text.str().find("in concat fwd") != std::string::npos);
  CHECK(text.str().find("3.00 MiB of sin fwd") != std::string::npos);

  // Memory from before that dies is seen, and a block of the profile goes back where it came from when that is over.
  Tensor old = ones({1 << 20});  // 4 MiB
  const std::size_t in_use = memory_stats(cpu).in_use;
  const Profile q = profile([&] { old = {}, kept = exp(x); }, {.memory = true});
  CHECK(q.peaks[0].bytes == in_use);
  CHECK(memory_stats(cpu).in_use == in_use - mib(4));
  kept = {};
  CHECK(memory_stats(cpu).in_use == in_use - mib(5));
}

namespace {

struct Measured {
  std::uint64_t requests = 0, allocations = 0;
  std::string result;
};
Measured train(std::optional<ProfileOptions> options) {
  manual_seed(8);
  TinyTraining training({.accumulate = 2});
  training.train(1 << 30, [&] { return training.seen < 8; });
  std::optional<Profiler> profiler;
  if (options) profiler.emplace(*options);
  const MemoryStats before = memory_stats(cpu);
  training.train(1 << 30, [&] { return training.seen < 12; });
  const MemoryStats after = memory_stats(cpu);
  if (profiler) CHECK(profiler->stop().calls.size() > 250);
  return {after.requests - before.requests, after.allocations - before.allocations, training.result()};
}

}  // namespace

TEST_CASE("a profiled step has the same bits and asks for the same memory", "[profile]") {
  train(std::nullopt);
  const Measured plain = train(std::nullopt);
  for (const bool memory : {false, true}) {
    const Measured seen = train(ProfileOptions{.memory = memory});
    CHECK(seen.requests == plain.requests);
    CHECK(seen.allocations == plain.allocations);
    CHECK((seen.result == plain.result));
  }
}

TEST_CASE("a trace is JSON with an event for each call", "[profile]") {
  const Tensor x = ones({3}).set_requires_grad();
  const Profile p = profile([&] { sum(outer(x.detach()) * exp(x)).backward(); });
  const std::string path = (std::filesystem::temp_directory_path() / "ct_profile_test.json").string();
  p.trace(path);
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file);
  std::filesystem::remove(path);
  std::size_t calls = 0;
  double last = 0;
  std::set<std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++calls;
    CHECK(event["ts"].get<double>() >= last);
    CHECK(event["dur"].get<double>() >= 0);
    last = event["ts"].get<double>();
    names.insert(event["name"].get<std::string>());
  }
  CHECK(calls == p.calls.size());
  CHECK(names.contains("outer\"\n"));
  CHECK(names.contains("mul backward"));
  CHECK(last <= 1e6 * p.seconds);
  CHECK_THROWS_AS(p.trace("/no/such/folder/step.json"), IoError);
}

TEST_CASE("time_of tells a slow function from a fast one", "[profile]") {
  const Tensor small = randn({16, 16}), large = randn({256, 256});
  int calls = 0;
  const double fast =
      time_of([&] { matmul(small, small), ++calls; }, {.warmup = 2, .runs = 5, .flush = false});
  CHECK(calls == 7);
  const double slow = time_of([&] { matmul(large, large); }, {.runs = 5});
  CHECK(fast > 0);
  CHECK(slow > 3 * fast);
  const auto nothing = [] {};
  CHECK_THROWS_AS(time_of(nothing, {.runs = 0}), ValueError);
  CHECK_THROWS_AS(time_of(nothing, {.warmup = -1}), ValueError);
  CHECK_THROWS_AS(time_of(nothing, {.device = cuda(99)}), DeviceError);
  // Values are read faster from a cache.
  const Tensor x = ones({1 << 16});
  const double warm = time_of([&] { sum(x); }, {.flush = false}), cold = time_of([&] { sum(x); });
  CHECK(cold > warm);
}

TEST_CASE("limits fall from caches to memory, and are measured once", "[profile]") {
  const GeneratorState draws = default_generator().state();
  const DeviceLimits limits = device_limits(cpu);
  CHECK(default_generator().state().offset == draws.offset);
  REQUIRE(limits.rates.size() > 4);
  CHECK(limits.bytes == limits.rates[0].bytes);
  for (std::size_t i = 1; i < limits.rates.size(); ++i) {
    CHECK(limits.rates[i].moved > limits.rates[i - 1].moved);
    CHECK(limits.rates[i].bytes <= limits.rates[i - 1].bytes);
  }
  CHECK(limits.bytes_at(0) == limits.bytes);
  CHECK(limits.bytes_at(1e18) == limits.rates.back().bytes);
  CHECK(limits.least_seconds({.flops = limits.flops, .bytes = 1}) == 1);
  CHECK(DeviceLimits{}.least_seconds({1, 1}) == 0);
  CHECK(device_limits(cpu).flops == limits.flops);
  CHECK(device_limits(cpu, f64).flops < limits.flops);
  CHECK_THROWS_AS(device_limits(cpu, i64), DTypeError);
  CHECK_THROWS_AS(device_limits(cuda(99)), DeviceError);
}

TEST_CASE("limits are measured in the memory that is left", "[profile]") {
  const int threads = num_threads();
  set_num_threads(5);  // for which nothing is known yet
  empty_cache(cpu);
  current_allocator(cpu).set_limit(memory_stats(cpu).reserved + (std::size_t{8} << 20));
  const DeviceLimits limits = device_limits(cpu);
  current_allocator(cpu).set_limit(0);
  set_num_threads(threads);
  CHECK(limits.flops > 0);
  REQUIRE(!limits.rates.empty());
  CHECK(limits.rates.back().moved <= 0x1p24);
  CHECK(device_limits(cpu).rates.back().moved == 0x1p28);
}

TEST_CASE("a profile on a GPU takes the device's times", "[profile][cuda]") {
  const Device gpu = cuda(0);
  const Tensor a = randn({2048, 2048}, {.device = gpu}), x = randn({1 << 24}, {.device = gpu});
  const Tensor host = randn({100});
  matmul(a, a), exp(x);
  const Profile p = profile(
      [&] {
        for (int i = 0; i < 10; ++i) matmul(a, a), exp(x);
        exp(host);
      },
      {.memory = true});
  const std::vector<ProfileRow> rows = p.rows();
  double self = 0;
  for (const ProfileRow& row : rows) {
    INFO(row.op);
    CHECK(row.limit < 1.05);
    if (row.device == gpu) self += row.self_us;
  }
  CHECK(self <= 1.01e6 * p.seconds);
  CHECK(self > 0.5e6 * p.seconds);
  const auto of = [&](const std::string& op) {
    return *std::ranges::find_if(rows, [&](const ProfileRow& r) { return r.op == op && r.device == gpu; });
  };
  CHECK(of("matmul").calls == 10);
  CHECK((of("exp").kernels == 0 || of("exp").kernels == 10));  // events do not tell
  CHECK(of("matmul").limit > 0.5);
  CHECK_FALSE(of("matmul").memory_bound);
  CHECK(of("exp").limit > 0.5);
  CHECK(of("exp").memory_bound);
  CHECK(p.waits == 0);
  CHECK(
      std::ranges::any_of(p.peaks, [&](const auto& peak) { return peak.device == gpu && peak.op == "exp"; }));
  double reached = 0;
  for (const Profile::Call& c : p.calls) {
    if (c.device != gpu || p.ops[c.op] == "(no op)") continue;
    CHECK(c.start_us >= reached - 5);  // one stream: one after the other
    CHECK(c.start_us + c.us <= 1e6 * p.seconds);
    reached = c.start_us + c.us;
  }
  // By events, with the device told or found.
  const double found = time_of([&] { exp(x); }), told = time_of([&] { exp(x); }, {.device = gpu});
  CHECK(found == Approx(told).epsilon(0.3));
  CHECK(found > 0x1p27 / 6e12);
}
