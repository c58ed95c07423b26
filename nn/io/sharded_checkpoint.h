#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <cotangent/core/base/export.h>
#include <cotangent/nn/state_dict.h>
#include <cotangent/ops/collective/group.h>

namespace ct::io {

struct ShardedCheckpointOptions {
  /// Generations that stay, the newest among them; older ones are removed when a newer one is whole.
  int keep = 2;
};

/// Checkpoints of several ranks, each of which writes a share of one state, beside the training that goes on.
///
///     ct::io::ShardedCheckpoint checkpoints("runs/gpt", world);
///     if (auto last = checkpoints.load()) { model.load_state_dict(last->state.part("model")); ... first = last->step; }
///     ...
///     StateDict common;
///     common.merge("model", model.state_dict());
///     StateDict shared;
///     shared.merge("optimizer", adam.sharded_state());   // nn::Zero1
///     checkpoints.save(step, common, shared);
///
/// In FOLDER each save() makes a folder of its own, "step-100", with a safetensors file from each rank; "LATEST" names the newest
/// one whose files are all there, and is renamed into place after them. A run that is killed at any moment, or a disk that is
/// full, leaves the generation before as it was. The folder is one that all ranks see. load() works with any number of ranks,
/// whatever their number was.
class CT_API ShardedCheckpoint {
 public:
  /// Throws ValueError for keep < 1.
  ShardedCheckpoint(std::string folder, const dist::Group& group,
                    const ShardedCheckpointOptions& options = {});
  /// Waits for the files that are being written, not for other ranks; errors are lost, see wait().
  ~ShardedCheckpoint();
  ShardedCheckpoint(const ShardedCheckpoint&) = delete;
  ShardedCheckpoint& operator=(const ShardedCheckpoint&) = delete;

  /// Copies the state to the host, where it is written by a thread, and returns. `common` is the same on all ranks, which write a
  /// part of each tensor; `shared` has what only this rank has, as Zero1::sharded_state() gives it. Collective. Throws what the
  /// files before have met with (see wait()), PeerError, and ValueError for a negative step.
  void save(std::int64_t step, const StateDict& common, const StateDict& shared = {});

  /// Returns when this rank's files are written, and on rank 0 when the generation is whole. Throws IoError for what could not
  /// be written, and on rank 0 where another rank's file has not come within ten minutes, or the group has failed
  /// (PeerError).
  void wait();

  struct Loaded {
    std::int64_t step;
    StateDict
        state;  ///< whole, on the CPU: the tensors of common and shared in their shapes, the values of both
  };
  /// The newest generation; nothing where there is none. Not collective. Throws IoError for files that are missing, damaged or
  /// do not give whole tensors.
  std::optional<Loaded> load() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ct::io
