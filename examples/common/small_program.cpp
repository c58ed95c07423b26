#include "examples/common/small_program.h"

#include <vector>

#include "examples/common/standard_streams.h"
#include "examples/common/step_profile.h"

namespace {
ProfileFlags g_flags;
StepProfile g_profile(g_flags);
}  // namespace

void add_profile(flags::Flags flags) { g_flags.add(flags); }
void profile_step() { g_profile.step(); }

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
