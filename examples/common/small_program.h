#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace CLI {
class App;
}

/// The flags of a program that has few. Each names the variable that it sets; what that holds is the default.
class SmallFlags {
 public:
  explicit SmallFlags(CLI::App& app) : app_(app) {}
  void text(const char* name, std::string& variable, const char* help);
  /// A file or folder.
  void path(const char* name, std::string& variable, const char* help);
  /// --device: auto, cpu, cuda or cuda:N.
  void device(std::string& variable);
  void whole(const char* name, std::int64_t& variable, const char* help, std::int64_t least = 1);
  /// Any whole number of 64 bits.
  void seed(const char* name, std::uint64_t& variable, const char* help);
  void positive(const char* name, double& variable, const char* help);
  void between(const char* name, double& variable, double low, double high, const char* help);
  /// A flag without a value.
  void on(const char* name, bool& variable, const char* help);

 private:
  CLI::App& app_;
};

/// main() of a program whose flags are few: add(flags) names them, then run() does the work. Exit codes: 0 done, 1 an
/// error, 2 a wrong command line. Compiled once for all of them: a parser of command lines takes longer than a program.
int small_program(const char* name, const std::string& about, int argc, char** argv,
                  const std::function<void(SmallFlags& flags)>& add, const std::function<void()>& run);
