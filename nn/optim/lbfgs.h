#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <cotangent/nn/optim/optimizer.h>

namespace ct::optim {

enum class LineSearch {
  none,          ///< steps of lr times the direction
  strong_wolfe,  ///< as far as the loss falls enough and its slope becomes flat enough
};

struct LBFGSOptions {
  double lr = 1;
  std::int64_t max_iter = 20;  ///< iterations of one step()
  /// Calls of the closure in one step(), two at least: a line search ends there, too. Else max_iter * 5 / 4, after which no
  /// further search begins.
  std::optional<std::int64_t> max_eval = std::nullopt;
  double tolerance_grad = 1e-7;    ///< done when no gradient is larger
  double tolerance_change = 1e-9;  ///< done when loss and parameters change by less
  std::int64_t history_size = 100;
  LineSearch line_search = LineSearch::none;
};

/// The quasi-Newton method L-BFGS (Nocedal and Wright, Numerical Optimization, 2006, algorithms 7.4, 3.5 and 3.6), as
/// torch.optim.LBFGS: for problems that are computed as a whole, not by random batches.
///
///     ct::optim::LBFGS lbfgs(model.parameters(), {.line_search = ct::optim::LineSearch::strong_wolfe});
///     lbfgs.step([&] {
///       lbfgs.zero_grad();
///       const ct::Tensor loss = ct::mse_loss(model.forward(x), y);
///       loss.backward();
///       return loss;
///     });
///
/// All parameters are one vector x, g is its gradient. From the last history_size changes s of x and y of g follows a
/// direction d = -H g, where H takes every y to its s; the step is x + t d. Computed in f64 if a parameter is, else in
/// f32. It keeps 2 history_size + 2 vectors, and asks the device for numbers in every iteration.
class CT_API LBFGS final : public Optimizer {
 public:
  /// Clears the gradients, computes the loss, calls backward(), and gives the loss.
  using Closure = std::function<Tensor()>;

  /// Throws ValueError for options out of range (lr and tolerances finite and >= 0; counts >= 1) and without
  /// parameters, DeviceError if these are on several devices.
  explicit LBFGS(std::vector<Tensor> params, const LBFGSOptions& options = {});

  /// Up to max_iter iterations. Gives the loss of before. If the closure throws, the parameters are those before the
  /// iteration. Throws ValueError for an empty closure, or one whose loss is not one number.
  Tensor step(const Closure& closure);
  const LBFGSOptions& options() const { return options_; }
  /// Iterations, and calls of the closure, of all steps.
  std::int64_t iterations() const { return iterations_; }
  std::int64_t evaluations() const { return evaluations_; }

  /// Counts, rate, direction and the history of changes.
  StateDict state_dict() const;
  /// Throws ValueError for the state of another optimizer or of other parameters; nothing is changed then.
  void load_state_dict(const StateDict& state);

 private:
  struct Point;  // of a line: how far, the loss, its slope, the gradient
  struct Change {
    Tensor y, s;
    double inverse = 0;  // 1 / (y s)
  };

  int moment_count(int) const override { return 0; }
  const char* moment_name(int) const override { return ""; }
  void update(int group, std::span<const int> members) override;

  Tensor vector_of(bool gradients) const;
  void set_params(const Tensor& x);
  Tensor call(const Closure& closure);
  void find_direction(const Tensor& gradient);
  Point evaluate(const Closure& closure, const Tensor& x, double t);
  Point search(const Closure& closure, const Tensor& x, const Point& start, double t, std::int64_t most);

  LBFGSOptions options_;
  std::int64_t numel_ = 0, iterations_ = 0, evaluations_ = 0;
  Tensor direction_, gradient_;  // the last, and the gradient before it
  double t_ = 0, scale_ = 1;     // the last step; what H is before the first change
  std::vector<Change> history_;
};

}  // namespace ct::optim
