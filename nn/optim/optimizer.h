#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/optim/step_gate.h>
#include <cotangent/nn/state_dict.h>

namespace ct {
class Recording;
}

namespace ct::optim {

/// Parameters that share options, as they are given to an optimizer.
template <class Options>
struct ParamGroup {
  std::vector<Tensor> params;
  Options options;
};

/// Base of all optimizers: groups of parameters, each with options and per-parameter state, and a step that
/// updates every parameter that has a gradient. A parameter without one is passed over, and its step count
/// stays: frozen ones (requires_grad false) are, and move once they are thawed and get gradients.
///
/// An optimizer knows the tensors that it was given. A layer that is assigned to a member of the module later
/// has others: make a new optimizer, or add a group.
///
/// Parameters of f16 and bf16 have moments in f32 and, unless the option master_weights is off, a master: a
/// copy in f32 that collects what a step changes, and that the parameter is rounded from in the same pass.
/// (Without one, a change of less than about 1/500 of a bf16 parameter is lost in rounding.) Where a
/// parameter is changed by somebody else, its master follows in those elements.
///
/// All parameters of a group and dtype are updated together: on a GPU by one launch (of up to 320 tensors),
/// on the CPU in chunks that ignore where one tensor ends and the next begins. The results have the same bits
/// for any number of threads.
///
/// An optimizer of one's own derives from this class, calls add_group() and overrides the three functions at
/// the end.
class CT_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Applies one update to every parameter with a gradient. Nothing is recorded on the tape, and a backward
  /// that still needs the old values throws AutogradError.
  /// Throws ShapeError, DTypeError or DeviceError if a gradient does not fit its parameter, before any
  /// change.
  void step();
  /// Forgets all gradients, or, with `set_to_none` false, fills them with zeros (for holders of these
  /// tensors).
  void zero_grad(bool set_to_none = true);

  int group_count() const { return static_cast<int>(groups_.size()); }
  const std::vector<Tensor>& params(int group = 0) const { return group_at(group).params; }
  /// The learning rate of a group at this time; schedulers set it.
  double lr(int group = 0) const { return group_at(group).lr; }
  /// Throws ValueError if `lr` is negative or not finite.
  void set_lr(double lr, int group);
  /// The same for all groups.
  void set_lr(double lr);
  /// "SGD", "Adam", ...
  const char* name() const { return name_; }
  /// Tensors whose gradients a GradScaler looks through and divides in place of those of params(), which are parts of them
  /// (nn::Zero1).
  void set_whole(std::vector<Tensor> params) { whole_ = std::move(params); }

  /// Step counts, moments, masters and learning rates, by position: "0.3.exp_avg" belongs to parameter 3 of
  /// group 0, "0.3.master" is its master. The tensors share memory with the optimizer's.
  StateDict state_dict() const;
  /// Takes back what state_dict() gave; moments are copied to their parameter's device. Options other than
  /// the learning rate are not part of the state: they are the program's.
  /// Throws ValueError if groups, parameters or shapes differ; nothing is changed then.
  void load_state_dict(const StateDict& state);

 protected:
  static constexpr int kMaxMoments = 3;
  struct ParamState {
    std::int64_t step = 0;  // where takes_gate() is false; else in StepState::steps
    std::size_t home = 0;   // the StepState that has its count
    Tensor moments[kMaxMoments];
    Tensor master;         // f32; undefined where there is none
    Ref<Storage> rounded;  // the parameter that was rounded from it, and when; kept, as addresses come again
    std::uint32_t rounded_version = 0;
  };
  /// Numbers of a group on one device, where steps read them: nothing that changes from step to step is an argument of a
  /// launch.
  struct StepState {
    Device device;
    Tensor lr;             // f64
    Tensor steps;          // i64, one for each parameter of the group, and the kernel's own
    double known_lr = -1;  // value of `lr`
  };
  struct Group {
    std::vector<Tensor> params;
    std::vector<ParamState> states;  // as many as there are parameters, and so is the next one
    std::vector<Tensor> grads;       // during a step: contiguous, undefined where there is none
    std::vector<StepState> on;       // by device
    std::size_t now = 0;             // during update(): the one of the members' device
    double lr = 0;
    std::optional<double> base_lr;
  };

  explicit Optimizer(const char* name);
  /// Throws ValueError for no groups, which is what constructors that take groups check first.
  void check_has_groups(std::size_t count) const;
  /// Checks the parameters (floating leaves, contiguous, none twice) and adds them. Throws ValueError,
  /// DTypeError or AutogradError.
  void add_group(std::vector<Tensor> params, double lr);
  Group& group_at(int group);
  const Group& group_at(int group) const;

  /// Number of moments of a parameter of this group (at most kMaxMoments), and their names in state_dict().
  virtual int moment_count(int group) const = 0;
  virtual const char* moment_name(int moment) const = 0;
  /// Updates the given parameters of a group, all of one dtype and on one device, which is current. Their
  /// moments exist (zeros at first). ParamState::step has gone up already where takes_gate() is false.
  virtual void update(int group, std::span<const int> members) = 0;
  /// Whether 16-bit parameters of this group have masters, which update() must change along with them.
  virtual bool keeps_master(int) const { return false; }
  /// Whether update() is a call of ops/update, which heeds gate() and counts the steps. If not, a GradScaler waits for the
  /// device before each step.
  virtual bool takes_gate() const { return false; }
  /// Inputs of the step that is running.
  const StepGate& gate() const { return gate_; }

 private:
  friend class LRScheduler;
  friend class GradScaler;
  // Initial rate of schedulers: that at the time the first of them was made.
  double base_lr(int group);

  void step_if(const StepGate& gate);
  void collect_gradients();
  void prepare_moments(int group);
  void prepare_masters(int group);
  void prepare_state(Group& group);
  void record(Recording& step, int group);
  std::vector<std::int64_t> step_counts(const Group& group) const;

  const char* name_;
  const std::uint64_t id_;  // no other optimizer of the process has it, also after this one's end
  std::vector<Group> groups_;
  std::vector<int> members_;    // scratch of step()
  std::uint64_t replaced_ = 0;  // goes up where tensors of the state make room for others
  StepGate gate_;
  std::vector<Tensor> whole_;
};

}  // namespace ct::optim
