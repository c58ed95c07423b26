#pragma once

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/printable.h>
#include <cotangent/core/base/version.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/nn/io/json.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/members.h"

// Record of a run in its folder: config.json, the settings and what they were used with, and
// history.jsonl, a line for each time that the program went on with it.

/// A whole file; empty if it can't be read.
inline std::string text_of(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return {};
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The program whose run a folder holds, by its config.json: "mnist", "gpt"; empty if no run of theirs.
inline std::string program_of(const std::string& folder) {
  const std::string config = text_of(folder + "/config.json");
  // Runs from before they named their program are known by a setting that the other one has not.
  for (const auto& [mark, program] : {std::pair<const char*, const char*>{"\"program\": \"mnist\"", "mnist"},
                                      {"\"program\": \"gpt\"", "gpt"},
                                      {"\"overfit_batch\": ", "mnist"},
                                      {"\"eval-interval\": ", "gpt"}})
    if (config.find(mark) != std::string::npos) return program;
  return {};
}

/// The settings in a run folder's config.json as "--flag=value": a flat object as RunRecord writes it.
/// Members named in `facts`, and those that say how the run was made, are no flags. Throws ct::IoError, also
/// for a run of another program.
inline std::vector<std::string> config_flags(const std::string& program, const std::string& folder,
                                             std::set<std::string> facts = {}) {
  facts.insert({"program", "version", "commit", "compiler", "command", "started", "threads", "data-hash"});
  const std::string path = folder + "/config.json";
  const std::string owner = program_of(folder);
  CT_CHECK(owner.empty() || owner == program, ct::IoError, program.c_str(), folder, " is a run of ", owner,
           "; use it with ./ct ", owner, ", or name a run of ", program);
  const std::string text = text_of(path);
  CT_CHECK(!text.empty(), ct::IoError, program.c_str(), "can't read ", path,
           "; a run folder has the settings of its run there");
  const char* const help = "it is damaged: put back what this program wrote";
  const ct::io::Json settings = ct::io::parse_json({program.c_str(), path, "the text is", help}, text);
  CT_CHECK(settings.is_object(), ct::IoError, program.c_str(), path, " is no JSON object; ", help);
  std::vector<std::string> flags;
  for (const auto& [key, value] : *settings.members()) {
    std::string flag = key;
    std::replace(flag.begin(), flag.end(), '_', '-');  // how earlier runs spelled it
    if (facts.count(flag) > 0) continue;
    CT_CHECK(!value.is_object() && !value.is_null(), ct::IoError, program.c_str(), path, " has ",
             value.kind(), " as the value of ", ct::printable(key), "; ", help);
    std::string word = value.text() ? *value.text() : value.dump(program.c_str());
    if (value.list()) std::erase_if(word, [](char c) { return c == '[' || c == ']' || c == ' '; });
    if (!word.empty()) flags.push_back(std::string("--").append(flag).append("=").append(word));
  }
  return flags;
}

/// The call of the program, for the record.
struct Call {
  std::string command;             // the whole line
  std::vector<std::string> given;  // names of the settings it has set
  flags::Members before;           // the settings of the run to go on with; none of a new one
};

/// Checks that a resumed run keeps the settings `names`; else throws ct::ValueError that names the flag.
inline void check_kept(const std::string& program, const std::string& run, const flags::Members& before,
                       const flags::Members& now, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::string was = flags::value_of(before, name), is = flags::value_of(now, name);
    for (std::string* value : {&was, &is}) std::erase(*value, '"');
    CT_CHECK(was == is, ct::ValueError, program.c_str(), "--", name, " is ", is, ", the run ", run, " has ",
             was, "; it can't change: leave it out, or train anew without --resume");
  }
}

/// Record of how a run was made.
struct RunRecord {
  std::string program;
  Call call;
  flags::Members settings;  // of now, with the device, paths and the rest as they are used
  std::string data_hash;
  flags::Members facts = {};  // others
  std::string at = {};        // where in the run this part of it begins: "epoch 3, batch 12"
  std::string started = utc_now();

  /// "--lr: 0.001, now 0.05", one for each setting that the command line has changed.
  std::vector<std::string> changes() const {
    std::vector<std::string> lines;
    for (const auto& [name, was, is] : changed())
      lines.push_back(
          std::string("--").append(name).append(": was ").append(was).append(", now ").append(is));
    return lines;
  }
  std::string config() const {
    flags::Members all = part();
    all.emplace_back("data-hash", flags::json(data_hash.substr(0, data_hash.find_last_not_of(' ') + 1)));
    all.insert(all.begin(), {"program", flags::json(program)});
    all.insert(all.end(), facts.begin(), facts.end());
    all.insert(all.end(), settings.begin(), settings.end());
    return "{\n  " + joined(all, ",\n  ") + "\n}\n";
  }
  std::string history_line() const {
    flags::Members changes, all = part();
    for (const auto& [name, was, is] : changed())
      changes.emplace_back(name, "{\"from\": " + was + ", \"to\": " + is + "}");
    all.emplace_back("device", flags::value_of(settings, "device"));
    all.emplace_back("at", flags::json(at));
    all.emplace_back("changes", "{" + joined(changes, ", ") + "}");
    return "{" + joined(all, ", ") + "}\n";
  }

 private:
  struct Change {
    std::string name, was, is;
  };
  std::vector<Change> changed() const {
    std::vector<Change> all;
    for (const std::string& name : call.given) {
      const std::string was = flags::value_of(call.before, name), is = flags::value_of(settings, name);
      if (!call.before.empty() && was != is) all.push_back({name, was, is});
    }
    return all;
  }
  // Members for this part of the run.
  flags::Members part() const {
    const ct::BuildInfo& built = ct::build_info();
    std::string compiler = built.compiler;
    if (*built.build_type) compiler.append(", ").append(built.build_type);
    if (*built.flags) compiler.append(", ").append(built.flags);
    if (*built.cuda) compiler.append(", CUDA ").append(built.cuda);
    return {{"started", flags::json(started)},
            {"command", flags::json(call.command)},
            {"version", flags::json(std::string(built.version))},
            {"commit", flags::json(std::string(built.commit))},
            {"compiler", flags::json(compiler)},
            {"threads", flags::json(ct::num_threads())}};
  }
  static std::string joined(const flags::Members& members, const std::string& between) {
    std::string out;
    for (const auto& [name, value] : members)
      out += (out.empty() ? "" : between) + flags::json(name) + ": " + value;
    return out;
  }
  static std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
    return text;
  }
};
