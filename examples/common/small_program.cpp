#include "examples/common/small_program.h"

#include <memory>
#include <vector>

#include "examples/common/command_line.h"
#include "examples/common/flags.h"
#include "examples/common/standard_streams.h"

void SmallFlags::text(const char* name, std::string& variable, const char* help) {
  app_.add_option(name, variable, help);
}
void SmallFlags::path(const char* name, std::string& variable, const char* help) {
  app_.add_option(name, variable, help)->check(flags::path());
}
void SmallFlags::device(std::string& variable) {
  app_.add_option("--device", variable, "auto, cpu, cuda or cuda:N")->check(flags::device());
}
void SmallFlags::whole(const char* name, std::int64_t& variable, const char* help, std::int64_t least) {
  app_.add_option(name, variable, help)->transform(flags::whole_number(least));
}
void SmallFlags::seed(const char* name, std::uint64_t& variable, const char* help) {
  app_.add_option(name, variable, help)->transform(flags::seed());
}
void SmallFlags::positive(const char* name, double& variable, const char* help) {
  app_.add_option(name, variable, help)->check(flags::positive());
}
void SmallFlags::between(const char* name, double& variable, double low, double high, const char* help) {
  app_.add_option(name, variable, help)->check(flags::between(low, high));
}
void SmallFlags::on(const char* name, bool& variable, const char* help) {
  app_.add_flag(name, variable, help);
}

int small_program(const char* name, const std::string& about, int argc, char** argv,
                  const std::function<void(SmallFlags& flags)>& add, const std::function<void()>& run) {
  const auto body = [&] {
    CLI::App app(about, name);
    app.formatter(std::make_shared<flags::Help>());
    app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    SmallFlags flags(app);
    add(flags);
    int exit_code = 0;
    if (!flags::parse(app, std::vector<std::string>(argv + 1, argv + argc), exit_code, [] {}))
      return exit_code;
    run();
    return 0;
  };
  return with_standard_streams(name, body, [] { return std::string(); });
}
