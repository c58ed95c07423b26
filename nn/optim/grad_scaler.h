#pragma once

#include <cstdint>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/optim/optimizer.h>
#include <cotangent/nn/state_dict.h>

namespace ct::optim {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;     ///< after growth_interval steps without an infinity
  double backoff_factor = 0.5;  ///< after a step with one
  std::int64_t growth_interval = 2000;
  bool enabled = true;  ///< off: scale() returns the loss, step() is the optimizer's
};

/// Loss scaling for f16, whose gradients would vanish below 6e-8, as torch.amp.GradScaler:
///
///     {
///       ct::Autocast guard(ct::f16);
///       loss = loss_of(model, batch);
///     }
///     scaler.scale(loss).backward();
///     scaler.unscale_(adam);                        // only if something looks at the gradients
///     ct::optim::clip_grad_norm_(model.parameters(), 1.0);
///     scaler.step(adam);                            // not made if a gradient is infinite or NaN
///     scaler.update();                              // once, after all optimizers' steps
///
/// On a GPU the scale and what was found stay in its memory, and so do the optimizer's counts of steps: the host waits for
/// nothing. (An optimizer of one's own that does not heed gate() is asked only when the answer is known, and that wait is
/// counted.) Without unscale_() the gradients keep their scale, also after step(): the step divides as it
/// reads them, in f32, so that small gradients of f16 parameters are not lost.
class CT_API GradScaler {
 public:
  /// Throws ValueError unless init_scale lies in [2^-126, what f32 holds], growth_factor > 1, 0 <
  /// backoff_factor < 1 and growth_interval > 0.
  explicit GradScaler(GradScalerOptions options = {});

  /// loss * scale, on the tape.
  Tensor scale(const Tensor& loss);
  /// Divides the gradients of the optimizer's parameters by the scale, in place, and looks for infinities. At
  /// most once per optimizer between two calls of update(), after all backward passes of the step.
  /// Throws ValueError if it comes twice or after step(), or if there is no gradient; DeviceError if
  /// gradients are on several devices.
  void unscale_(Optimizer& optimizer);
  /// optimizer.step(), unless a gradient is infinite or NaN. Throws ValueError the second time before
  /// update().
  void step(Optimizer& optimizer);
  /// Lowers the scale if a step was left out, raises it after growth_interval steps in a row. Throws
  /// ValueError if no step() or unscale_() came before.
  void update();
  /// Sets the scale instead. Throws ValueError unless it lies in [2^-126, what f32 holds].
  void update(double new_scale);

  bool enabled() const { return options_.enabled; }
  /// The scale of this moment, 1 if not enabled. Waits for the device.
  double get_scale() const;

  /// Scale, factors and the number of good steps, under PyTorch's names. Waits for the device.
  StateDict state_dict() const;
  /// Throws ValueError for numbers out of range; nothing is changed then.
  void load_state_dict(const StateDict& state);

 private:
  struct Seen {                   // an optimizer between two updates
    std::uint64_t optimizer = 0;  // its id: addresses are given to new ones
    Tensor found_inf;
    bool unscaled = false;
    bool stepped = false;
  };

  void place(Device device);
  Tensor number(int which) const { return numbers_.select(0, which); }
  Seen& seen(const Optimizer& optimizer);
  void inspect(Optimizer& optimizer, Seen& entry, bool unscale);
  void set_numbers(double scale, double good_steps);

  GradScalerOptions options_;
  Tensor numbers_;  // f32[3]: see update::ScaleNumber
  std::vector<Seen> seen_;
  std::vector<Tensor> spare_;  // flags for the next round
};

}  // namespace ct::optim
