#include "examples/common/command_line.h"

#include <cotangent/core/base/error.h>
#include <cotangent/core/device/device.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace flags {

namespace {

// Validators of flags' values. CLI11's own ranges accept NaN, and those without an upper bound print all digits of
// the largest number.

const char* const kPath = "PATH";  // what path() says of a value

// A number in base 10, for Option::transform(): zeros in front of it go, which would mean base 8 to CLI11.
template <class Int>
CLI::Validator base_10(Int least, Int most, const std::string& range, const std::string& wanted) {
  return {[=](std::string& text) {
            Int n = 0;
            const char* const all = text.data() + text.size();
            const auto [end, error] = std::from_chars(text.data(), all, n);
            if (error != std::errc() || end != all || n < least || n > most)
              return "it is " + text + "; a whole number is wanted, " + wanted;
            text = std::to_string(n);
            return std::string();
          },
          range};
}
CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const std::string from = std::to_string(least), range = from + " to " + std::to_string(most);
  if (most == Flags::kNoEnd) return base_10(least, most, from + " or more", from + " to 2^40");
  return base_10(least, most, range, range);
}

// A number that `good` holds for; it gets no NaN and no infinity.
template <class Good>
CLI::Validator number(Good good, const std::string& wanted) {
  return {[good, wanted](const std::string& text) {
            double x = 0;
            const bool fits = CLI::detail::lexical_cast(text, x) && x > -1e300 && x < 1e300 && good(x);
            return fits ? std::string() : "it is " + text + "; a number is wanted, " + wanted;
          },
          wanted};
}

// --help of "./ct PROGRAM": the same with every version of CLI11, whatever the place of the program.
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
      const bool path = range == kPath;
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

// Edit distance: the number of letters to insert, remove or replace that turns `a` into `b`.
std::size_t edits(const std::string& a, const std::string& b) {
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

// "unknown flag --epoch; did you mean --epochs?", of the first argument that `app` has no place for.
std::string unknown(const CLI::App& app, const std::vector<std::string>& args) {
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

}  // namespace

bool captures(bool on_gpu, bool eager) {
  return !eager && (on_gpu || std::getenv("COTANGENT_CHECK_CAPTURE") != nullptr);
}

Members Settings::members() const {
  Members all;
  for (const Setting& s : settings_) all.emplace_back(s.name, s.value());
  return all;
}

std::vector<std::string> Settings::given() const {
  std::vector<std::string> names;
  for (const Setting& s : settings_)
    if (s.option->count() > 0) names.push_back(s.name);
  return names;
}

Option Option::required() const { return Option(option_->required()); }
Option Option::excludes(Option other) const { return Option(option_->excludes(other.option_)); }
Option Option::hide_default() const { return Option(option_->default_str("")); }

template <class T>
void Flags::remember(const std::string& names, T& variable, const CLI::Option* option) const {
  if (settings_)
    settings_->settings_.push_back({names.substr(2), [&variable] { return json(variable); }, option});
}
template <class T>
CLI::Option* Flags::add(const std::string& names, T& variable, const std::string& help) const {
  CLI::Option* const option = app_->add_option(names, variable, help);
  remember(names, variable, option);
  return option;
}

Option Flags::text(const std::string& names, std::string& variable, const std::string& help) const {
  return Option(add(names, variable, help));
}
Option Flags::one_of(const std::string& names, std::string& variable, const std::string& help,
                     std::vector<std::string> choices) const {
  return Option(add(names, variable, help)->check(CLI::IsMember(std::move(choices))));
}
// An empty text is a variable that was not set, and would mean that the flag was not given.
Option Flags::path(const std::string& names, std::string& variable, const std::string& help) const {
  const auto wrong = [](const std::string& text) {
    return text.empty() ? std::string("it is empty; a file or folder is wanted") : std::string();
  };
  return Option(add(names, variable, help)->check(CLI::Validator(wrong, kPath)));
}
Option Flags::device(std::string& variable) const {
  const auto wrong = [](const std::string& text) {
    try {
      ct::parse_device(text);
      return std::string();
    } catch (const ct::Error& e) { return std::string(e.what()); }
  };
  return Option(add("--device", variable, "auto, cpu, cuda or cuda:N")->check(CLI::Validator(wrong, "")));
}

Option Flags::whole(const std::string& names, std::int64_t& variable, const std::string& help,
                    std::int64_t least, std::int64_t most) const {
  return Option(add(names, variable, help)->transform(whole_number(least, most)));
}
Option Flags::whole(const std::string& names, int& variable, const std::string& help, int least,
                    int most) const {
  return Option(add(names, variable, help)->transform(whole_number(least, most)));
}
Option Flags::list(const std::string& names, std::vector<std::int64_t>& variable, const std::string& help,
                   std::int64_t least, std::int64_t most) const {
  return Option(add(names, variable, help)
                    ->delimiter(',')
                    ->multi_option_policy(CLI::MultiOptionPolicy::Throw)
                    ->transform(whole_number(least, most)));
}
Option Flags::threads(int& variable, const std::string& help) const {
  return whole("--threads", variable, help, 0, 1024);
}
Option Flags::seed(const std::string& names, std::uint64_t& variable, const std::string& help) const {
  return Option(
      add(names, variable, help)
          ->transform(base_10(std::uint64_t{0}, ~std::uint64_t{0}, "0 or more", "0 or more and below 2^64")));
}

Option Flags::finite(const std::string& names, double& variable, const std::string& help) const {
  return Option(add(names, variable, help)->check(number([](double) { return true; }, "a finite one")));
}
Option Flags::positive(const std::string& names, double& variable, const std::string& help) const {
  return Option(add(names, variable, help)->check(number([](double x) { return x > 0; }, "more than 0")));
}
Option Flags::not_negative(const std::string& names, double& variable, const std::string& help) const {
  return Option(add(names, variable, help)->check(number([](double x) { return x >= 0; }, "0 or more")));
}
Option Flags::between(const std::string& names, double& variable, const std::string& help, double low,
                      double high) const {
  char range[80];
  std::snprintf(range, sizeof range, "%g to %g", low, high);
  const auto good = [low, high](double x) { return x >= low && x <= high; };
  return Option(add(names, variable, help)->check(number(good, range)));
}

Option Flags::on(const std::string& names, bool& variable, const std::string& help) const {
  CLI::Option* const option = app_->add_flag(names, variable, help);
  remember(names, variable, option);
  return Option(option);
}
Option Flags::on_or_off(const std::string& names, bool& variable, const std::string& help) const {
  return Option(add(names, variable, help));
}

Flags Flags::group(const std::string& heading) const {
  return Flags(app_->add_option_group(heading), settings_);
}
Flags Flags::command(const std::string& name, const std::string& about) const {
  return Flags(app_->add_subcommand(name, about));
}
bool Flags::parsed() const { return app_->parsed(); }
bool Flags::given(const std::string& name) const { return app_->count(name) > 0; }

Program::Program(const std::string& name, const std::string& about, const std::string& footer)
    : app_(std::make_unique<CLI::App>(about, name)) {
  app_->formatter(std::make_shared<Help>());
  app_->footer(footer);
  app_->require_subcommand(0, 1);
  app_->option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}
Program::~Program() = default;

Flags Program::flags(Settings* settings) { return Flags(app_.get(), settings); }

bool Program::parse(const std::vector<std::string>& args, int& exit_code,
                    const std::function<void()>& check) {
  try {
    try {
      app_->parse(std::vector<std::string>(args.rbegin(), args.rend()));  // what CLI11 wants
      if (std::count(args.begin(), args.end(), "") > 0 && app_->get_subcommands().empty())
        throw CLI::ExtrasError({""});
      if (check) check();
    } catch (const CLI::ExtrasError& e) { throw CLI::ParseError(unknown(*app_, args), e.get_exit_code()); }
  } catch (const CLI::ParseError& e) {
    exit_code = app_->exit(e) == 0 ? 0 : 2;
    return false;
  }
  return true;
}

void Program::apply_config(const std::string& folder, std::vector<std::string> flags) {
  try {
    app_->parse(std::move(flags));
  } catch (const CLI::ParseError& error) {
    const bool unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    ct::detail::fail<ct::IoError>(
        app_->get_name().c_str(), folder, "/config.json has a ",
        unknown ? "setting that this program does not know: " : "value that can't be: ", error.what(),
        "; it is damaged or of another version");
  }
}

void refuse(const std::string& flag, const std::string& why) { throw CLI::ValidationError(flag, why); }

std::string early(const std::vector<std::string>& args, const std::string& flag) {
  std::string value;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i] == flag && i + 1 < args.size()) value = args[i + 1];
    if (args[i].rfind(flag + "=", 0) == 0) value = args[i].substr(flag.size() + 1);
  }
  return value;
}

std::string quoted(const char* program, const std::vector<std::string>& args) {
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
