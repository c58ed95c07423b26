#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>

#include <cotangent/core/base/export.h>
#include <cotangent/nn/state_dict.h>

namespace ct::io {

/// A part of a checkpoint: a module, an optimizer, a scheduler, a loader, or a type of the user's with these
/// two functions. load_state_dict() should change nothing if it throws.
template <class T>
concept Stateful = requires(T& object, const StateDict& state) {
  { object.state_dict() } -> std::convertible_to<StateDict>;
  object.load_state_dict(state);
};

/// A named part of a checkpoint; refers to the object.
class CT_API CheckpointPart {
 public:
  template <Stateful T>
  CheckpointPart(std::string name, T& object)
      : name_(std::move(name)),
        save_([&object] { return StateDict(object.state_dict()); }),
        load_([&object](const StateDict& state) { object.load_state_dict(state); }) {
    if constexpr (requires(const StateDict& state) { object.check_state_dict(state); })
      check_ = [&object](const StateDict& state) { object.check_state_dict(state); };
  }

  const std::string& name() const { return name_; }
  StateDict save() const { return save_(); }
  void load(const StateDict& state) const { load_(state); }
  /// Whether check() can tell beforehand that load() will throw.
  bool has_check() const { return static_cast<bool>(check_); }
  void check(const StateDict& state) const { check_(state); }

 private:
  std::string name_;
  std::function<StateDict()> save_;
  std::function<void(const StateDict&)> load_, check_;
};

/// Writes the state of all parts, of the default generator and `extras` (tensors and values of the caller's)
/// to one safetensors file, as a whole or not at all (AtomicFile): a run that is killed at any moment leaves
/// the previous checkpoint or the new one.
///
///     ct::io::save_checkpoint("last.ckpt", {{"model", model}, {"optimizer", adam}, {"batches", batches}});
///
/// Called inside the loop over `batches`, behind optimizer.step(), it lets a resumed run go on with the next
/// batch and compute, bit for bit, what the uninterrupted run computes. Throws IoError, and ValueError for a
/// part's name that is empty, used twice, contains a '.' or is one of "rng", "extra", "checkpoint".
CT_API void save_checkpoint(const std::string& path, std::initializer_list<CheckpointPart> parts,
                            const StateDict& extras = {});

/// Puts back what save_checkpoint() wrote and returns the extras. Parts of the file that are not asked for
/// are passed over (to load the model alone, say); the generator is set in any case. Throws IoError for a
/// file that is no checkpoint, ValueError for a part that it lacks or that does not fit; no part has changed
/// then.
CT_API StateDict load_checkpoint(const std::string& path, std::initializer_list<CheckpointPart> parts);

}  // namespace ct::io
