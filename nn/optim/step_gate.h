#pragma once

namespace ct::optim {

/// What a step learns only when it runs: numbers in the memory of the parameters' device, so that the host
/// need not wait for them. optim::GradScaler fills it.
struct StepGate {
  const float* found_inf = nullptr;  ///< the step changes nothing if this is not 0; null: go ahead
  const float* scale = nullptr;      ///< a factor on every gradient; null: 1
};

}  // namespace ct::optim
