#include <cotangent/cotangent.h>

#include <chrono>
#include <cstdio>
#include <functional>

#include "examples/common/device.h"
#include "examples/common/small_program.h"

// Four ways of timing the same call, which differ in when they wait for the device, and what ct::time_of() says.

using ct::Tensor;
using Call = std::function<void()>;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string device = "auto";
  std::int64_t calls = 100;
};

// Microseconds of one of `s.calls` calls by the host's clock.
double by_clock(const Settings& s, const Call& call, const Call& after_each, const Call& at_the_end) {
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < s.calls; ++i) call(), after_each();
  at_the_end();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count() /
         static_cast<double>(s.calls);
}

double by_events(const Settings& s, ct::Device device, const Call& call) {
  std::vector<ct::Event> marks;
  for (std::int64_t i = 0; i < 2 * s.calls; ++i) marks.emplace_back(true);
  for (std::int64_t i = 0; i < s.calls; ++i) {
    marks[2 * i].record(ct::current_stream(device));
    call();
    marks[2 * i + 1].record(ct::current_stream(device));
  }
  double ms = 0;
  for (std::int64_t i = 0; i < s.calls; ++i) ms += marks[2 * i].elapsed_ms(marks[2 * i + 1]);
  return 1e3 * ms / static_cast<double>(s.calls);
}

void measure(const Settings& s) {
  const ct::Device device = usable_device("timing", s.device);
  const std::int64_t side = device.is_cpu() ? 256 : 4096;
  const Tensor small = ct::randn({1000}, {.device = device});
  const Tensor large = ct::randn({side, side}, {.device = device});
  const Call calls[] = {[&] { ct::exp(small); }, [&] { ct::matmul(large, large); }};
  const Call nothing = [] {}, wait = [&] { ct::synchronize(device); };
  std::printf("us per call on %-6s            exp of 1000   product of %lld\n", ct::to_string(device).c_str(),
              static_cast<long long>(side));
  const auto row = [&](const char* name, const std::function<double(const Call&)>& way) {
    double us[2];
    for (int i = 0; i < 2; ++i) {
      for (int k = 0; k < 10; ++k) calls[i]();  // the first ones find kernels, memory and a clock that is low
      ct::synchronize(device);
      us[i] = way(calls[i]);
      ct::synchronize(device);
    }
    std::printf("%-30s %12.2f  %14.2f\n", name, us[0], us[1]);
  };
  row("the clock, and no wait", [&](const Call& call) { return by_clock(s, call, nothing, nothing); });
  row("the clock, one wait at the end", [&](const Call& call) { return by_clock(s, call, nothing, wait); });
  row("events around each call", [&](const Call& call) { return by_events(s, device, call); });
  row("the clock, a wait after each", [&](const Call& call) { return by_clock(s, call, wait, nothing); });
  row("time_of, caches warm", [&](const Call& call) { return 1e6 * ct::time_of(call, {.flush = false}); });
  row("time_of", [&](const Call& call) { return 1e6 * ct::time_of(call); });
}

int main(int argc, char** argv) {
  Settings s;
  return small_program(
      "timing", "Times two calls in four ways, which differ in when they wait for the device.", argc, argv,
      [&](flags::Flags flags) {
        flags.device(s.device);
        flags.whole("--calls", s.calls, "that the mean is taken of");
      },
      [&] { measure(s); });
}
