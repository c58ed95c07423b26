#pragma once

#include <string>
#include <vector>

#include "examples/common/command_line.h"
#include "examples/common/flags.h"
#include "examples/common/standard_streams.h"

/// main() of a program whose flags are few: add_flags(app) names the variables that they set, then run() does the work.
/// Exit codes: 0 done, 1 an error, 2 a wrong command line.
template <class AddFlags, class Run>
int small_program(const char* name, const std::string& about, int argc, char** argv, AddFlags&& add_flags,
                  Run&& run) {
  const auto body = [&] {
    CLI::App app(about, name);
    app.formatter(std::make_shared<flags::Help>());
    app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    add_flags(app);
    int exit_code = 0;
    if (!flags::parse(app, std::vector<std::string>(argv + 1, argv + argc), exit_code, [] {}))
      return exit_code;
    run();
    return 0;
  };
  return with_standard_streams(name, body, [] { return std::string(); });
}
