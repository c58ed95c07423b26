#pragma once

#include <cotangent/autograd/engine.h>
#include <cotangent/core/base/error.h>
#include <cotangent/core/base/rng.h>

#include <string>

/// Scope with `model` in evaluation mode and a default generator that is restored at its end: training goes on
/// with the same draws however often it is evaluated, and wherever a run is interrupted.
template <class Model>
class Evaluation {
 public:
  explicit Evaluation(Model& model)
      : model_(model), trains_(model.is_training()), draws_(ct::default_generator().state()) {
    model_.eval();
  }
  ~Evaluation() {
    ct::default_generator().set_state(draws_);
    model_.train(trains_);
  }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

 private:
  Model& model_;
  bool trains_;
  ct::GeneratorState draws_;
};

/// Computes a loss that is no number again, watched, with its gradients, and says which op made the first
/// number that is not finite.
template <class Loss>
std::string first_bad_op(Loss&& loss) {
  try {
    const ct::AnomalyGuard guard;
    loss().backward();
  } catch (const ct::AutogradError& e) {
    const std::string what = e.what();
    return what.substr(0, what.find('\n'));  // then where in the code: for who works on it
  }
  return "each of its ops gives finite numbers when it is computed again";
}
