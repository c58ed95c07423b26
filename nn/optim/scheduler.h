#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/number.h>
#include <cotangent/nn/optim/optimizer.h>
#include <cotangent/nn/state_dict.h>

namespace ct::optim {

/// Base of all learning-rate schedules: a clock that counts calls of step(), and a formula that gives a
/// group's rate from the clock and from the rate it started with (that at the time the first scheduler of
/// the optimizer was made). Making a scheduler sets the rates of time 0.
///
///     ct::optim::CosineAnnealingLR schedule(adam, {.steps = 1000});
///     for (...) { ...; adam.step(); schedule.step(); }
///
/// Whether the clock counts epochs or batches is up to the caller. All formulas are closed: the rate does
/// not depend on the rates before, so a rate set by hand lasts until the next step(), and nothing drifts.
/// The optimizer must outlive the scheduler.
class CT_API LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  /// Moves the clock on by one and sets the rates of all groups. Throws ValueError if one of them is
  /// negative or not finite (a user's formula can be); nothing is changed then.
  void step();
  /// The number of calls of step().
  std::int64_t time() const { return time_; }
  /// The rates that were set last, by group.
  const std::vector<double>& last_lr() const { return last_; }
  /// The rate of a group at any time >= 0, looked up without changing anything.
  double lr_at(std::int64_t time, int group = 0) const;
  Optimizer& optimizer() const { return optimizer_; }

  /// Clock, starting rates and last rates. The formula and its options are not part of the state.
  StateDict state_dict() const;
  /// Takes back what state_dict() gave. The optimizer's rates are its own state and left alone. Throws
  /// ValueError for the state of another kind of scheduler or another number of groups; nothing is changed
  /// then.
  void load_state_dict(const StateDict& state);

 protected:
  LRScheduler(const char* name, Optimizer& optimizer);
  /// Sets the rates of time 0: the last line of every constructor.
  void start();
  const char* name() const { return name_; }

  /// The rate of `group` at `time`, given the one it started with.
  virtual double rate(std::int64_t time, int group, double base) const = 0;
  /// Whether a group that is added later goes on from the rate that it came with, as if its rate had been another at the
  /// start (PyTorch's schedules that multiply the last rate); else that is the rate it would have started with.
  virtual bool goes_on() const { return false; }

 private:
  friend class SequentialLR;
  void set(std::int64_t time);

  const char* name_;
  Optimizer& optimizer_;
  std::int64_t time_ = 0;
  std::vector<double> base_, last_;
};

struct StepLROptions {
  std::int64_t step_size;
  double gamma = 0.1;
};
/// base * gamma^(t / step_size rounded down), as torch's StepLR. ValueError: step_size < 1, gamma < 0.
class CT_API StepLR final : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, StepLROptions options);

 private:
  double rate(std::int64_t time, int group, double base) const override;
  bool goes_on() const override { return true; }
  StepLROptions options_;
};

struct MultiStepLROptions {
  std::vector<std::int64_t> milestones;
  double gamma = 0.1;
};
/// base * gamma^(number of milestones <= t), as torch's MultiStepLR. Milestones may come in any order, and one
/// listed twice counts twice. ValueError: a milestone < 0, gamma < 0.
class CT_API MultiStepLR final : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, MultiStepLROptions options);

 private:
  double rate(std::int64_t time, int group, double base) const override;
  bool goes_on() const override { return true; }
  MultiStepLROptions options_;
};

struct ExponentialLROptions {
  double gamma;
};
/// base * gamma^t, as torch's ExponentialLR. ValueError: gamma < 0.
class CT_API ExponentialLR final : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, ExponentialLROptions options);

 private:
  double rate(std::int64_t time, int group, double base) const override;
  bool goes_on() const override { return true; }
  ExponentialLROptions options_;
};

struct CosineAnnealingLROptions {
  /// Half a period: the rate reaches min_lr there, and climbs again afterwards (PyTorch's T_max).
  std::int64_t steps;
  double min_lr = 0;
};
/// min_lr + (base - min_lr) (1 + cos(pi t / steps)) / 2, as torch's CosineAnnealingLR (Loshchilov and Hutter,
/// SGDR, 2017, without restarts). ValueError: steps < 1, min_lr < 0.
class CT_API CosineAnnealingLR final : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, CosineAnnealingLROptions options);

 private:
  double rate(std::int64_t time, int group, double base) const override;
  bool goes_on() const override { return true; }
  CosineAnnealingLROptions options_;
};

struct CosineAnnealingWarmRestartsOptions {
  std::int64_t steps;           ///< until the first restart (PyTorch's T_0)
  std::int64_t multiplier = 1;  ///< each period is so many times as long as the one before (T_mult)
  double min_lr = 0;
};
/// min_lr + (base - min_lr) (1 + cos(pi u / n)) / 2, u steps after a restart in a period of n, as torch's
/// CosineAnnealingWarmRestarts (Loshchilov and Hutter, SGDR, 2017). ValueError: steps < 1, multiplier < 1, min_lr < 0.
class CT_API CosineAnnealingWarmRestarts final : public LRScheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer, CosineAnnealingWarmRestartsOptions options);

 private:
  double rate(std::int64_t time, int group, double base) const override;
  CosineAnnealingWarmRestartsOptions options_;
};

struct OneCycleLROptions {
  double max_lr;
  std::int64_t total_steps;
  double pct_start = 0.3;  ///< the part of the steps in which the rate rises
  bool linear = false;     ///< straight lines instead of halves of a cosine
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;  ///< down to the first rate as fast as up, then further down
};
/// A rate from max_lr / div_factor up to max_lr and down to max_lr / div_factor / final_div_factor, as torch's OneCycleLR
/// without its cycle of momentum (Smith and Topin, Super-Convergence, 2018). All groups get the same rate, whatever
/// theirs was. ValueError: max_lr < 0, total_steps < 1, pct_start outside [0, 1], a factor <= 0, and, thrown by step(), a
/// time after total_steps.
class CT_API OneCycleLR final : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, OneCycleLROptions options);

 private:
  double rate(std::int64_t time, int group, double base) const override;
  OneCycleLROptions options_;
};

struct PolynomialLROptions {
  std::int64_t steps = 5;
  double power = 1;
};
/// base (1 - t / steps)^power, and 0 from then on, as torch's PolynomialLR. ValueError: steps < 1, power < 0.
class CT_API PolynomialLR final : public LRScheduler {
 public:
  explicit PolynomialLR(Optimizer& optimizer, PolynomialLROptions options = {});

 private:
  double rate(std::int64_t time, int group, double base) const override;
  bool goes_on() const override { return true; }
  PolynomialLROptions options_;
};

struct LinearLROptions {
  double start_factor = 1.0 / 3;
  double end_factor = 1;
  std::int64_t steps = 5;
};
/// base times a factor that goes in a straight line from start_factor to end_factor within `steps`, and stays
/// there: warm-up. As torch's LinearLR. ValueError: start_factor outside (0, 1], end_factor outside [0, 1],
/// steps < 1.
class CT_API LinearLR final : public LRScheduler {
 public:
  explicit LinearLR(Optimizer& optimizer, LinearLROptions options = {});

 private:
  double rate(std::int64_t time, int group, double base) const override;
  bool goes_on() const override { return true; }
  LinearLROptions options_;
};

/// base * factor(t), as torch's LambdaLR. With several functions each belongs to one group. Functions are not
/// part of the state. ValueError: a function is empty, or there are neither 1 nor as many as groups.
class CT_API LambdaLR final : public LRScheduler {
 public:
  using Factor = std::function<double(std::int64_t time)>;
  LambdaLR(Optimizer& optimizer, Factor factor);
  LambdaLR(Optimizer& optimizer, std::vector<Factor> factors);

 private:
  double rate(std::int64_t time, int group, double base) const override;
  std::vector<Factor> factors_;
};

/// One schedule after another, as torch's SequentialLR: schedule k runs from milestone k - 1 on, and its
/// clock begins at 0 there. The schedules are used as formulas; they are not to be stepped themselves.
///
///     SequentialLR schedule(adam, {std::make_shared<LinearLR>(adam, LinearLROptions{.steps = 100}),
///                                  std::make_shared<CosineAnnealingLR>(adam,
///                                  CosineAnnealingLROptions{900})},
///                           {100});
///
/// ValueError: no schedules, one that is null or of another optimizer, a number of milestones other than one
/// less than schedules, milestones that are < 1 or do not increase.
class CT_API SequentialLR final : public LRScheduler {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedules,
               std::vector<std::int64_t> milestones);

 private:
  double rate(std::int64_t time, int group, double base) const override;
  bool goes_on() const override { return schedule_at(time()).first->goes_on(); }
  std::pair<const LRScheduler*, std::int64_t> schedule_at(std::int64_t time) const;  // and when it began
  std::vector<std::shared_ptr<LRScheduler>> schedules_;
  std::vector<std::int64_t> milestones_;
};

struct ReduceLROnPlateauOptions {
  bool maximize = false;  ///< larger is better (PyTorch's mode "max")
  double factor = 0.1;
  std::int64_t patience = 10;  ///< steps without improvement that are let pass
  double threshold =
      1e-4;  ///< what counts as improvement: so much of the best value, or, if `absolute`, so much
  bool absolute = false;
  std::int64_t cooldown = 0;  ///< steps after a reduction that are not counted
  double min_lr = 0;
  double eps = 1e-8;  ///< a smaller change of the rate is not made
};
/// Multiplies the rates by `factor` when a value that should get better, a validation loss, has not for more than
/// `patience` steps, as torch's ReduceLROnPlateau. It has no formula of time, and is no LRScheduler. A NaN is no
/// improvement. The optimizer must outlive it. ValueError: factor outside [0, 1), patience, threshold, cooldown, min_lr or
/// eps < 0.
class CT_API ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options = {});

  /// Takes the value of this epoch; true if the rates were reduced.
  bool step(Real value);
  /// The best value so far; infinite before the first.
  double best() const { return best_; }

  StateDict state_dict() const;
  /// Throws ValueError for the state of another kind of scheduler; nothing is changed then.
  void load_state_dict(const StateDict& state);

 private:
  Optimizer& optimizer_;
  ReduceLROnPlateauOptions options_;
  double best_;
  std::int64_t bad_ = 0, cooling_ = 0;
};

}  // namespace ct::optim
