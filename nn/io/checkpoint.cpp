#include <cotangent/nn/io/checkpoint.h>

#include <algorithm>
#include <set>
#include <vector>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/printable.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/nn/io/safetensors.h>

namespace ct::io {
namespace {

constexpr char kRng[] = "rng";
constexpr char kExtra[] = "extra";
constexpr char kVersion[] = "checkpoint.version";
constexpr std::int64_t kCurrentVersion = 1;

void check_names(const char* op, std::initializer_list<CheckpointPart> parts) {
  std::set<std::string> names = {kRng, kExtra, "checkpoint"};
  for (const CheckpointPart& part : parts)
    CT_CHECK(!part.name().empty() && part.name().find('.') == std::string::npos &&
                 names.insert(part.name()).second,
             ValueError, op, "got a part named ", printable(part.name()),
             "; names are not empty, have no '.', differ, and are not 'rng', 'extra' or 'checkpoint'");
}

// The names before the first '.' of everything in a file.
std::string list_parts(const StateDict& file) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : file) names.insert(name.substr(0, name.find('.')));
  for (const auto& [name, value] : file.values()) names.insert(name.substr(0, name.find('.')));
  std::string text;
  for (const std::string& name : names)
    if (name != kRng && name != kExtra && name != "checkpoint")
      text += (text.empty() ? "" : ", ") + printable(name).str();
  return text.empty() ? "none" : text;
}

}  // namespace

void save_checkpoint(const std::string& path, std::initializer_list<CheckpointPart> parts,
                     const StateDict& extras) {
  check_names("save_checkpoint", parts);
  StateDict file;
  for (const CheckpointPart& part : parts) {
    file.merge(part.name(), part.save());
    file.set_value("checkpoint.part." + part.name(), true);  // a part may be empty
  }
  const GeneratorState rng = detail::on_host("save_checkpoint", default_generator().state());
  file.set_value("rng.seed", rng.seed);
  file.set_value("rng.offset", rng.offset);
  file.merge(kExtra, extras);
  file.set_value(kVersion, kCurrentVersion);
  save(path, file);
}

StateDict load_checkpoint(const std::string& path, std::initializer_list<CheckpointPart> parts) {
  constexpr char op[] = "load_checkpoint";
  check_names(op, parts);
  const StateDict file = load(path);
  CT_CHECK(file.contains_value(kVersion), IoError, op, printable_path(path),
           " is not a checkpoint; ct::io::load() reads other safetensors files");
  const auto version = file.value<std::int64_t>(kVersion);
  CT_CHECK(version == kCurrentVersion, IoError, op, printable_path(path), " has version ", version,
           "; this program reads version ", kCurrentVersion);
  const GeneratorState rng{static_cast<std::uint64_t>(file.value<std::int64_t>("rng.seed")),
                           static_cast<std::uint64_t>(file.value<std::int64_t>("rng.offset"))};

  struct Work {
    const CheckpointPart* part;
    StateDict wanted, before;
  };
  std::vector<Work> work;
  for (const CheckpointPart& part : parts) {
    CT_CHECK(file.contains_value("checkpoint.part." + part.name()), ValueError, op, printable_path(path),
             " has no part ", printable(part.name()), "; it has ", list_parts(file));
    work.push_back({&part, file.part(part.name()), {}});
  }
  for (const Work& w : work)
    if (w.part->has_check()) w.part->check(w.wanted);
  // Parts that can't be asked beforehand come first, and go back if a later one fails.
  std::stable_sort(work.begin(), work.end(),
                   [](const Work& a, const Work& b) { return !a.part->has_check() && b.part->has_check(); });
  std::size_t loaded = 0;
  try {
    for (Work& w : work) {
      if (!w.part->has_check()) w.before = w.part->save().deep_copy();
      w.part->load(w.wanted);
      ++loaded;
    }
  } catch (...) {
    while (loaded-- > 0)
      if (!work[loaded].part->has_check()) work[loaded].part->load(work[loaded].before);
    throw;
  }
  default_generator().set_state(rng);
  return file.part(kExtra);
}

}  // namespace ct::io
