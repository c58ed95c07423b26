#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/nn/optim/optimizer.h>
#include <cotangent/nn/parallel/data_parallel.h>

namespace ct::nn {

/// Parameters of a DataParallel in parts, one for each rank: what an optimizer keeps for a parameter, its moments and its f32
/// master, is kept for the rank's part alone (ZeRO, stage 1, Rajbhandari et al. 2020). Each bucket is cut into equal parts. The
/// parameters' memory moves into buckets, too, so that a step ends with one all_gather for each.
///
/// The optimizers whose steps treat each element alone give the same bits as without: SGD, Adam, AdamW, RMSprop, Adagrad, Lion;
/// not Muon, nor LBFGS.
class CT_API ParameterShards {
 public:
  explicit ParameterShards(DataParallel& parallel);
  ~ParameterShards();
  ParameterShards(const ParameterShards&) = delete;
  ParameterShards& operator=(const ParameterShards&) = delete;

  /// This rank's part of each parameter, with the gradients' parts behind each backward(): [n], empty where it has none. Throws
  /// ValueError for a tensor that is no parameter of the model, or was asked for before.
  std::vector<Tensor> parts(const std::vector<Tensor>& params);
  template <class Options>
  std::vector<optim::ParamGroup<Options>> parts(std::vector<optim::ParamGroup<Options>> groups) {
    for (auto& group : groups) group.params = parts(group.params);
    return groups;
  }
  /// The parameters that were asked for, for Optimizer::set_whole().
  std::vector<Tensor> whole() const;
  /// Gives every rank the other ranks' parts of the parameters. Collective.
  void gather();

  /// The state that this rank keeps, with the place of each piece in the whole: values "NAME@begin" and "NAME@shape". For
  /// io::ShardedCheckpoint, whose load() gives the whole.
  StateDict sharded_state(const StateDict& mine) const;
  /// The whole that an optimizer over parts() keeps, on every rank, as an optimizer over the parameters would: its state_dict()
  /// of any number of ranks. Collective.
  StateDict gather_state(const StateDict& mine) const;
  /// This rank's part of such a state.
  StateDict part_of_state(const StateDict& whole) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// An optimizer whose state is shared out among the ranks.
///
///     nn::DataParallel parallel(model, world);
///     nn::Zero1<optim::AdamW> adam(parallel, optim::decay_groups(model, optim::AdamWOptions{.lr = 6e-4}));
///
/// Gradients are all there on every rank: clipping and scaling are as without (for a GradScaler: scaler.step(adam.optimizer()),
/// then adam.gather()). zero_grad() is the DataParallel's.
template <class O>
class Zero1 {
 public:
  template <class Options>
  Zero1(DataParallel& parallel, std::vector<optim::ParamGroup<Options>> groups)
      : shards_(parallel), optimizer_(shards_.parts(std::move(groups))) {
    optimizer_.set_whole(shards_.whole());
  }
  template <class Options>
  Zero1(DataParallel& parallel, const std::vector<Tensor>& params, const Options& options)
      : shards_(parallel), optimizer_(shards_.parts(params), options) {
    optimizer_.set_whole(shards_.whole());
  }

  /// One update of this rank's parts, and the exchange of all. Collective. Throws as Optimizer::step().
  void step() {
    optimizer_.step();
    gather();
  }
  void gather() { shards_.gather(); }
  /// The optimizer of this rank's parts: rates, schedules.
  O& optimizer() { return optimizer_; }

  /// This rank's share of the state, for io::ShardedCheckpoint.
  StateDict sharded_state() const { return shards_.sharded_state(optimizer_.state_dict()); }
  /// The whole state, on every rank. Collective.
  StateDict state_dict() const { return shards_.gather_state(optimizer_.state_dict()); }
  /// A whole state, of any number of ranks. Throws as Optimizer::load_state_dict().
  void load_state_dict(const StateDict& state) { optimizer_.load_state_dict(shards_.part_of_state(state)); }

 private:
  ParameterShards shards_;
  O optimizer_;
};

}  // namespace ct::nn
