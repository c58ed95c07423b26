#pragma once

#include <cotangent/core/tensor/tensor.h>

namespace ct::optim {

/// Numbers that a step reads when it runs: f32 in the parameters' device memory, so that the host need not wait for
/// them. optim::GradScaler fills it.
struct StepGate {
  Tensor found_inf;      ///< the step changes nothing if this is not 0; undefined: go ahead
  Tensor inverse_scale;  ///< a factor on every gradient; undefined: 1
};

}  // namespace ct::optim
