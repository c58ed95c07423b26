#pragma once

#include <cotangent/core/base/rng.h>
#include <cotangent/nn/data/loader.h>
#include <cotangent/nn/parallel/data_parallel.h>
#include <cotangent/ops/creation/creation.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "examples/common/device.h"

/// Processes that train together, each a rank: those that mpirun, srun or torchrun has started (ct::dist::init), else this one
/// alone. --batch counts all ranks' images or texts, of which each takes its part; rank 0 speaks and writes.
class Ranks {
 public:
  /// `device` is what --device names: auto and cuda are the GPU of this rank among those of its host. Throws as usable_device()
  /// and dist::init().
  Ranks(const std::string& program, const std::string& device)
      : each_(usable_device(program, device).is_cuda() && (device == "auto" || device == "cuda")),
        group_(ct::dist::init({.device = each_ ? std::nullopt : std::optional(ct::parse_device(device))})) {
    if (!first()) (void)!std::freopen("/dev/null", "w", stdout);
  }
  const ct::dist::Group& group() const { return group_; }
  ct::Device device() const { return group_.device(); }
  /// The device in a run's record: "cuda" where each rank has a GPU of its own, for a run may be resumed on more ranks.
  std::string device_name() const { return each_ ? "cuda" : ct::to_string(device()); }
  int size() const { return group_.size(); }
  bool first() const { return group_.rank() == 0; }
  /// For a program's first lines: nothing of one rank.
  std::string text() const {
    return size() == 1 ? "" : ", " + std::to_string(size()) + " ranks (" + group_.backend() + ")";
  }
  /// For a loss that is no number: computing it again would be a collective call that the others do not make.
  static constexpr char kOneTells[] = "a run of one rank tells the op";

  /// `options` for this rank's part of the batches.
  ct::data::LoaderOptions part(ct::data::LoaderOptions options) const {
    options.num_replicas = size();
    options.rank = group_.rank();
    options.prefetch = device();
    return options;
  }
  /// Whether any rank says so. Collective: all ask at the same place.
  bool any(bool mine) const {
    return size() == 1 ? mine
                       : ct::dist::all_reduce(ct::full({}, mine ? 1.0 : 0.0), group_, ct::dist::ReduceOp::max)
                                 .item() > 0;
  }

  /// Means of all ranks' gradients from now on, where there are several. What is drawn in training (dropout, augmentation) is
  /// each rank's own then; the model and its checkpoint must be there. Collective.
  template <class Model>
  void train_together(const Model& model) {
    if (size() == 1) return;
    parallel_.emplace(model, group_);
    ct::GeneratorState draws = ct::default_generator().state();
    draws.seed ^= static_cast<std::uint64_t>(group_.rank()) << 32;
    ct::default_generator().set_state(draws);
  }
  /// While what it returns lives, backward() adds up gradients on this rank alone: all batches of a step but the last.
  std::unique_ptr<ct::nn::DataParallel::NoSync> alone() const {
    return parallel_ ? std::make_unique<ct::nn::DataParallel::NoSync>(parallel_->buckets()) : nullptr;
  }

 private:
  const bool each_;
  ct::dist::Group group_;
  std::optional<ct::nn::DataParallel> parallel_;
};
