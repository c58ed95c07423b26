#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/module.h>
#include <cotangent/nn/state_dict.h>

namespace ct::optim {

struct EmaOptions {
  double decay = 0.999;
  /// Begins with shorter memory: the decay of update t is min(decay, (1 + t) / (10 + t)).
  bool warmup = false;
};

/// The exponential moving average of parameters over training, which often generalises better than the last
/// of them. After update t
///     average <- average + (1 - decay) (parameter - average)
/// in f32 also for f16 and bf16 parameters, in f64 for f64; one launch for (up to 40) parameters on a GPU.
///
///     ct::optim::Ema ema(model, {.decay = 0.999});
///     for (...) { ...; adam.step(); ema.update(); }
///     {
///       ct::optim::EmaScope averaged(ema);          // the model computes with the averages in here
///       evaluate(model);
///     }
class CT_API Ema {
 public:
  /// The averages begin as copies of the parameters. Throws ValueError unless 0 <= decay < 1, or if there is
  /// no parameter, or one that is not floating or not contiguous.
  explicit Ema(const nn::Module& module, EmaOptions options = {});
  explicit Ema(std::vector<Tensor> params, EmaOptions options = {});

  /// Once after each step of the optimizer. Throws ValueError between apply() and restore().
  void update();
  std::int64_t updates() const { return updates_; }

  /// Puts the averages (rounded to the parameters' dtype) into the parameters, and keeps what was there.
  /// Throws ValueError if that has been done.
  void apply();
  /// Puts back what apply() kept. Throws ValueError if there is nothing.
  void restore();
  bool applied() const { return !kept_.empty(); }

  /// The averages, in the order of the parameters.
  const std::vector<Tensor>& averages() const { return averages_; }

  /// The averages under the names of the module's parameters ("0", "1", ... without a module): with
  /// strict = false a module loads it as it is. And the number of updates. The tensors share memory.
  StateDict state_dict() const;
  /// Throws ValueError if a name is missing or a shape differs; nothing is changed then.
  void load_state_dict(const StateDict& state);

 private:
  Ema(std::vector<nn::Named<Tensor>> params, EmaOptions options);

  /// updates_ for the kernel, of the parameters of a dtype on a device: i64[2], the second number the kernel's own.
  struct Counter {
    Device device;
    DType dtype;
    Tensor updates;
  };
  const Tensor& counter(Device device, DType dtype);

  EmaOptions options_;
  std::vector<std::string> names_;
  std::vector<Tensor> params_, averages_, kept_;
  std::int64_t updates_ = 0;
  std::vector<Counter> counters_;
  std::uint64_t replaced_ = 0;  // goes up where tensors make room for others
};

/// apply() now, restore() at the end of the scope, unless that has been done. The end throws nothing: if
/// restore() fails there, for a parameter that has changed its shape, say, ema.applied() stays true.
class CT_API EmaScope {
 public:
  [[nodiscard]] explicit EmaScope(Ema& ema) : ema_(ema) { ema.apply(); }
  ~EmaScope();
  EmaScope(const EmaScope&) = delete;
  EmaScope& operator=(const EmaScope&) = delete;

 private:
  Ema& ema_;
};

}  // namespace ct::optim
