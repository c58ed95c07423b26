#pragma once

#include <functional>
#include <string>

#include <cotangent/core/device/device.h>

#include "examples/common/command_line.h"

/// main() of a program whose flags are few: add(flags) names them, then run() does the work. Exit codes: 0 done, 1 an
/// error, 2 a wrong command line.
int small_program(const char* name, const std::string& about, int argc, char** argv,
                  const std::function<void(flags::Flags flags)>& add, const std::function<void()>& run);

/// --profile and --trace of such a program, which calls profile_step() at the start of each step.
void add_profile(flags::Flags flags);
void profile_step();
/// "  62% of limit", what the steps since the last call reached of the device's (StepLimit), for a log line; empty in the first
/// seconds. Waits for the device.
std::string limit_share(ct::Device device);
