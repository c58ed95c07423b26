#pragma once

namespace ct::optim {

/// Values that a step reads when it runs: they lie in the parameters' device memory, so that the host need
/// not wait for them. optim::GradScaler fills it.
struct StepGate {
  const float* found_inf = nullptr;  ///< the step changes nothing if this is not 0; null: go ahead
  const float* scale = nullptr;      ///< a factor on every gradient; null: 1
};

}  // namespace ct::optim
