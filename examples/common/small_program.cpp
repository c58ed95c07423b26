#include "examples/common/small_program.h"

#include <vector>

#include "examples/common/standard_streams.h"

int small_program(const char* name, const std::string& about, int argc, char** argv,
                  const std::function<void(flags::Flags flags)>& add, const std::function<void()>& run) {
  const auto body = [&] {
    flags::Program program(name, about);
    add(program.flags());
    int exit_code = 0;
    if (!program.parse(std::vector<std::string>(argv + 1, argv + argc), exit_code)) return exit_code;
    run();
    return 0;
  };
  return with_standard_streams(name, body, [] { return std::string(); });
}
