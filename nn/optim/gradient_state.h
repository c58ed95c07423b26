#pragma once

#include <string>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/module.h>
#include <cotangent/nn/state_dict.h>

namespace ct::optim {

/// The gradients of a module as a part of a checkpoint: what a run that accumulates gradients needs to be
/// saved between two batches of one step, and to go on there to the bit.
///
///     ct::optim::GradientState gradients(model);
///     ct::io::save_checkpoint("last", {{"model", model}, {"optimizer", adam}, {"gradients", gradients},
///     ...});
///
/// Between steps, after zero_grad(), there are none and nothing is saved.
class CT_API GradientState {
 public:
  explicit GradientState(const nn::Module& module);

  /// The gradients that there are, under the names of their parameters. They share memory with the module's.
  StateDict state_dict() const;
  /// Sets each parameter's gradient to the saved one, or to none. Throws ValueError for a name that the
  /// module does not have, or a shape that is not its parameter's; nothing is changed then.
  void load_state_dict(const StateDict& state);
  void check_state_dict(const StateDict& state) const;

 private:
  std::vector<nn::Named<Tensor>> params_;
};

}  // namespace ct::optim
