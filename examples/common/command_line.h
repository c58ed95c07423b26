#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/members.h"

// The command lines of all programs: flags, the text of --help, and what is said of a wrong flag. CLI11, which is slow
// to compile, is included by command_line.cpp alone.

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace flags {

/// Help of --eager.
inline constexpr const char* kEagerHelp =
    "on a GPU, run each step call by call, in the place of replays of a captured one";

/// Whether steps are captured: on a GPU, and on the CPU where replays are checked (COTANGENT_CHECK_CAPTURE); not with --eager.
bool captures(bool on_gpu, bool eager);

/// The flags that make a run what it is, with the variables that hold them.
class Settings {
 public:
  /// All of them, as they are now.
  Members members() const;
  /// The names of those that the command line has set.
  std::vector<std::string> given() const;

 private:
  friend class Flags;
  struct Setting {
    std::string name;
    std::function<std::string()> value;
    const CLI::Option* option;
  };
  std::vector<Setting> settings_;
};

/// A flag of a program: further rules for it. It belongs to its program.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  /// Makes the flag required.
  Option required() const;
  /// Excludes another flag.
  Option excludes(Option other) const;
  /// --help does not say what holds without it.
  Option hide_default() const;

 private:
  CLI::Option* option_;
};

/// Place where flags are added: a program, a group in its --help, or a command. It belongs to its program. Each flag
/// has its names ("--lr"), the variable that it sets, whose value is the default, the text of --help, and what its
/// value may be.
class Flags {
 public:
  /// `settings`, if any, remembers each flag that is added here and in the groups below.
  explicit Flags(CLI::App* app, Settings* settings = nullptr) : app_(app), settings_(settings) {}

  Option text(const std::string& names, std::string& variable, const std::string& help) const;
  Option one_of(const std::string& names, std::string& variable, const std::string& help,
                std::vector<std::string> choices) const;
  /// A file or folder.
  Option path(const std::string& names, std::string& variable, const std::string& help) const;
  /// --device: auto, cpu, cuda or cuda:N.
  Option device(std::string& variable) const;

  static constexpr std::int64_t kNoEnd = std::int64_t{1} << 40;  // --help says "or more"
  /// A whole number from `least` to `most`.
  Option whole(const std::string& names, std::int64_t& variable, const std::string& help,
               std::int64_t least = 1, std::int64_t most = kNoEnd) const;
  Option whole(const std::string& names, int& variable, const std::string& help, int least, int most) const;
  /// Such numbers, separated by commas.
  Option list(const std::string& names, std::vector<std::int64_t>& variable, const std::string& help,
              std::int64_t least, std::int64_t most) const;
  /// --threads: 0 to 1024.
  Option threads(int& variable, const std::string& help) const;
  /// Any whole number of 64 bits.
  Option seed(const std::string& names, std::uint64_t& variable, const std::string& help) const;

  /// Numbers, none of them NaN or infinity: any, more than 0, 0 or more, from `low` to `high`.
  Option finite(const std::string& names, double& variable, const std::string& help) const;
  Option positive(const std::string& names, double& variable, const std::string& help) const;
  Option not_negative(const std::string& names, double& variable, const std::string& help) const;
  Option between(const std::string& names, double& variable, const std::string& help, double low,
                 double high) const;

  /// A flag without a value.
  Option on(const std::string& names, bool& variable, const std::string& help) const;
  /// A flag whose value is true or false.
  Option on_or_off(const std::string& names, bool& variable, const std::string& help) const;

  /// Flags that --help lists under a heading of their own.
  Flags group(const std::string& heading) const;
  /// A command of the program, with flags of its own.
  Flags command(const std::string& name, const std::string& about) const;
  /// Whether the command line names this command.
  bool parsed() const;
  /// Whether the command line gives the flag of this name, which must have been added.
  bool given(const std::string& name) const;

 private:
  template <class T>
  CLI::Option* add(const std::string& names, T& variable, const std::string& help) const;
  template <class T>
  void remember(const std::string& names, T& variable, const CLI::Option* option) const;

  CLI::App* app_;
  Settings* settings_;
};

/// A program's command line.
class Program {
 public:
  /// `footer` stands at the end of --help.
  Program(const std::string& name, const std::string& about, const std::string& footer = "");
  ~Program();
  /// Place where its flags are added; `settings`, if any, remembers them.
  Flags flags(Settings* settings = nullptr);
  /// Parses `args`, then calls `check`, if any, which may refuse(). False when the program should end with
  /// `exit_code`: --help or an error has been printed.
  bool parse(const std::vector<std::string>& args, int& exit_code,
             const std::function<void()>& check = nullptr);
  /// Parses what config_flags() returned of the run in `folder`. Throws ct::IoError.
  void apply_config(const std::string& folder, std::vector<std::string> flags);

 private:
  std::unique_ptr<CLI::App> app_;
};

/// Error that Program::parse() prints: the command line is wrong, for `flag`.
[[noreturn]] void refuse(const std::string& flag, const std::string& why);

/// The settings of `options` as they are, named by add(flags, options).
template <class Options, class Add>
Members members_of(Options options, const Add& add) {
  Program program("", "");
  Settings settings;
  add(program.flags(&settings), options);
  return settings.members();
}

/// The value of a flag that must be known before the others are parsed; empty if it is not given.
std::string early(const std::vector<std::string>& args, const std::string& flag);

/// The arguments as a shell reads them.
std::string quoted(const char* program, const std::vector<std::string>& args);

}  // namespace flags
