#pragma once

#include "bench/ladders/ladder.h"

// What the ladders of the fused product have in common on both devices: a case is m, n, k.

namespace ct::ladder::linear_relu {

inline constexpr const char* kWhat = "y = relu(x W + b), m x n x k";

/// x [m, k], W [k, n] and b [n].
Tensors inputs(const Case& of);
/// Three loops over f64.
Tensors plain(const Tensors& in);
/// ct::linear, whose product adds the bias, and ct::relu_ in place.
Tensors library(const Tensors& in);

}  // namespace ct::ladder::linear_relu
