#include "examples/common/small_program.h"

#include <chrono>
#include <optional>
#include <vector>

#include <cotangent/core/device/stream.h>

#include "examples/common/standard_streams.h"
#include "examples/common/step_profile.h"

namespace {
using Clock = std::chrono::steady_clock;

ProfileFlags g_flags;
StepProfile g_profile(g_flags);
std::optional<StepLimit> g_limit;
std::optional<Clock::time_point> g_since;  // the first step of those that limit_share() counts
std::int64_t g_steps = 0;
}  // namespace

void add_profile(flags::Flags flags) { g_flags.add(flags); }
void profile_step() {
  g_profile.step();
  if (!g_limit) g_limit.emplace();
  g_limit->step();
  if (!g_since) g_since = Clock::now(), g_steps = 0;
  ++g_steps;
}
std::string limit_share(ct::Device device) {
  if (!g_since) return {};
  ct::synchronize(device);
  const std::chrono::duration<double> taken = Clock::now() - *g_since;
  g_since.reset();
  return g_limit->text(taken.count() / static_cast<double>(g_steps));
}

int small_program(const char* name, const std::string& about, int argc, char** argv,
                  const std::function<void(flags::Flags flags)>& add, const std::function<void()>& run) {
  const auto body = [&] {
    flags::Program program(name, about);
    add(program.flags());
    int exit_code = 0;
    if (!program.parse(std::vector<std::string>(argv + 1, argv + argc), exit_code)) return exit_code;
    run();
    g_profile.finish();
    return 0;
  };
  return with_standard_streams(name, body, [] { return std::string(); });
}
