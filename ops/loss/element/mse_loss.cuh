#pragma once

#include <cotangent/ops/loss/element/mse_loss_internal.h>
#include <cotangent/ops/loss/element/sum_elements.cuh>

namespace ct::loss::mse {

/// As it is summed on a GPU.
template <class T>
using Loss = Unweighted<SquaredError>;

}  // namespace ct::loss::mse
