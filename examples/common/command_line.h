#pragma once

#include <cotangent/core/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/members.h"

// What all command lines have in common: settings, the text of --help, and what is said of a wrong flag.

namespace flags {

/// The flags that make a run what it is, with the variables that hold them.
class Settings {
 public:
  /// An option "--NAME" of `app` that sets `variable`.
  template <class T>
  CLI::Option* add(CLI::App* app, const std::string& name, T& variable, const std::string& help) {
    return remember(name, variable, app->add_option("--" + name, variable, help));
  }
  /// A flag without a value.
  CLI::Option* add_flag(CLI::App* app, const std::string& name, bool& variable, const std::string& help) {
    return remember(name, variable, app->add_flag("--" + name, variable, help));
  }
  /// All of them, as they are now.
  Members members() const {
    Members all;
    for (const Setting& s : settings_) all.emplace_back(s.name, s.value());
    return all;
  }
  /// The names of those that the command line has set.
  std::vector<std::string> given() const {
    std::vector<std::string> names;
    for (const Setting& s : settings_)
      if (s.option->count() > 0) names.push_back(s.name);
    return names;
  }

 private:
  struct Setting {
    std::string name;
    std::function<std::string()> value;
    const CLI::Option* option;
  };
  template <class T>
  CLI::Option* remember(const std::string& name, const T& variable, CLI::Option* option) {
    settings_.push_back({name, [&variable] { return json(variable); }, option});
    return option;
  }
  std::vector<Setting> settings_;
};

/// The settings of `options` as they are, named by add(app, settings, options).
template <class Options, class Add>
Members members_of(Options options, const Add& add) {
  CLI::App app;
  Settings s;
  add(app, s, options);
  return s.members();
}

/// --help of "./ct PROGRAM": the same with every version of CLI11, whatever the place of the program.
class Help : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    std::string path = app->get_name();
    for (const CLI::App* up = app->get_parent(); up; up = up->get_parent())
      path = up->get_name() + " " + path;
    std::string out = "Usage: ./ct " + path + " [flags]\n";
    const auto below = app->get_subcommands([](const CLI::App*) { return true; });
    for (const CLI::App* sub : below)
      if (!sub->get_name().empty())
        out += row("       ./ct " + path + " " + sub->get_name() + " ...", sub->get_description());
    out += "\n" + wrapped(app->get_description(), 0) + "\n" + options(app);
    for (const CLI::App* group : below)
      if (group->get_name().empty()) out += "\n" + group->get_group() + ":\n" + options(group);
    if (!app->get_parent() && !app->get_footer().empty()) out += "\n" + app->get_footer() + "\n";
    return out;
  }

 private:
  static constexpr std::size_t kColumn = 32, kWidth = 110;

  static std::string options(const CLI::App* app) {
    std::string out;
    for (const CLI::Option* option : app->get_options()) {
      if (app->get_name().empty() && option == app->get_help_ptr()) continue;  // of a group
      std::string names;
      for (const std::string& name : option->get_snames()) names += (names.empty() ? "-" : ", -") + name;
      for (const std::string& name : option->get_lnames()) names += (names.empty() ? "--" : ", --") + name;
      const bool by_place = names.empty();
      if (by_place) names = option->get_name(true);
      // "INT:0 or more", "TEXT:{gpt2,llama}", "TEXT"
      const std::string type = option->get_type_name();
      std::string range = type.find(':') == std::string::npos ? "" : type.substr(type.find(':') + 1);
      const bool path = range == "PATH";  // flags::path()
      if (path) range.clear();
      std::string text = option->get_description(), notes, initial = option->get_default_str();
      if (option->get_items_expected_max() > 0 && !by_place)
        names += type.starts_with("INT") || type.starts_with("UINT") ? " N"
                 : type.starts_with("FLOAT")                         ? " X"
                 : type.starts_with("BOOLEAN")                       ? " true|false"
                 : path                                              ? " PATH"
                                                                     : " TEXT";
      if (type.starts_with("BOOLEAN")) initial = initial == "1" ? "true" : "false";
      if (!range.empty() && range[0] != '{') notes = range;
      if (!range.empty() && range[0] == '{' &&
          text.find(range.substr(1, range.find(',') - 1)) == std::string::npos)
        for (const char c : range.substr(1, range.size() - 2))
          notes += c == ',' ? std::string(", ") : std::string(1, c);
      if (option->get_required()) notes += (notes.empty() ? "" : "; ") + std::string("must be given");
      if (option->get_items_expected_max() > 0 && !initial.empty())
        notes += (notes.empty() ? "" : "; ") + std::string("default ") + initial;
      if (!notes.empty()) text += (text.empty() ? "(" : " (") + notes + ")";
      out += row("  " + names, text);
    }
    return out;
  }
  static std::string row(std::string left, const std::string& right) {
    if (left.size() + 2 > kColumn) {
      left += '\n' + std::string(kColumn, ' ');
    } else {
      left.resize(kColumn, ' ');
    }
    return left + wrapped(right, kColumn);
  }
  // Lines of kWidth, of which those after the first begin at `column`.
  static std::string wrapped(const std::string& text, std::size_t column) {
    std::string out;
    std::size_t at = 0, room = kWidth - column;
    while (text.size() - at > room) {
      std::size_t end = text.rfind(' ', at + room);
      if (end == std::string::npos || end <= at) end = std::min(text.find(' ', at), text.size());
      out += text.substr(at, end - at) + '\n' + std::string(column, ' ');
      at = std::min(end + 1, text.size());
    }
    return out + text.substr(at) + '\n';
  }
};

/// How many letters must be put in, left out or replaced to make `b` of `a`.
inline std::size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

/// "unknown flag --epoch; did you mean --epochs?", of the first argument that `app` has no place for.
inline std::string unknown(const CLI::App& app, const std::vector<std::string>& args) {
  const CLI::App* at = &app;
  for (const CLI::App* sub : app.get_subcommands())
    if (!sub->get_name().empty()) at = sub;
  const std::vector<std::string> extra = app.remaining(true);
  const auto is_extra = [&](const std::string& arg) {
    return std::find(extra.begin(), extra.end(), arg) != extra.end();
  };
  // The value of an unknown flag is no better known than the flag.
  auto bad = std::find_if(args.begin(), args.end(),
                          [&](const std::string& arg) { return arg.starts_with('-') && is_extra(arg); });
  if (bad == args.end()) bad = std::find_if(args.begin(), args.end(), is_extra);
  if (bad == args.end()) return "an argument that is empty; leave it out, or give it a value";
  const bool flag = bad->starts_with('-');
  const std::string word = bad->substr(0, bad->find('='));
  std::vector<std::string> known;
  const std::function<void(const CLI::App*)> collect = [&](const CLI::App* app_or_group) {
    for (const CLI::Option* option : app_or_group->get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    for (const CLI::App* below : app_or_group->get_subcommands([](const CLI::App*) { return true; }))
      if (below->get_name().empty()) collect(below);
  };
  if (flag) {
    collect(at);
  } else {
    for (const CLI::App* sub : at->get_subcommands([](const CLI::App*) { return true; }))
      if (!sub->get_name().empty()) known.push_back(sub->get_name());
  }
  std::string best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : known) {
    const bool begun = word.size() > 3 && name.starts_with(word);
    const std::size_t distance = begun ? 1 : edits(word, name);
    if (distance < least) least = distance, best = name;
  }
  const std::string what = flag            ? "unknown flag "
                           : known.empty() ? "unexpected argument "
                                           : "unknown command ";
  return what + word + (best.empty() ? "; --help lists what there is" : "; did you mean " + best + "?");
}

/// Parses `args`, then calls `check`, which may throw CLI::ValidationError. False when the program should end
/// with `exit_code`: --help or an error has been printed.
template <class Check>
bool parse(CLI::App& app, const std::vector<std::string>& args, int& exit_code, Check&& check) {
  try {
    try {
      app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // what CLI11 wants
      if (std::count(args.begin(), args.end(), "") > 0 && app.get_subcommands().empty())
        throw CLI::ExtrasError({""});
      check();
    } catch (const CLI::ExtrasError& e) { throw CLI::ParseError(unknown(app, args), e.get_exit_code()); }
  } catch (const CLI::ParseError& e) {
    exit_code = app.exit(e) == 0 ? 0 : 2;
    return false;
  }
  return true;
}

/// Parses what config_flags() returned. Throws ct::IoError.
inline void apply_config(CLI::App& app, const std::string& program, const std::string& folder,
                         std::vector<std::string> flags) {
  try {
    app.parse(std::move(flags));
  } catch (const CLI::ParseError& error) {
    const bool unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    ct::detail::fail<ct::IoError>(
        program.c_str(), folder, "/config.json has a ",
        unknown ? "setting that this program does not know: " : "value that can't be: ", error.what(),
        "; it is damaged or of another version");
  }
}

/// The value of a flag that must be known before the others are parsed; empty if it is not given.
inline std::string early(const std::vector<std::string>& args, const std::string& flag) {
  std::string value;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i] == flag && i + 1 < args.size()) value = args[i + 1];
    if (args[i].rfind(flag + "=", 0) == 0) value = args[i].substr(flag.size() + 1);
  }
  return value;
}

/// The arguments as a shell reads them.
inline std::string quoted(const char* program, const std::vector<std::string>& args) {
  std::string line = program;
  for (const std::string& arg : args) {
    const bool plain = !arg.empty() && arg.find_first_not_of(
                                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                           "0123456789-_=+.,/:@%") == std::string::npos;
    line += plain ? " " + arg : " '";
    if (plain) continue;
    for (const char c : arg) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

}  // namespace flags
