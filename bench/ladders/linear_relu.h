#pragma once

#include "bench/ladders/ladder.h"

namespace ct::ladder::linear_relu {

/// y = relu(x W + b) in f32, a case being m, n, k: x is [m, k], W [k, n], b [n]. Shared parts of the ladders of both
/// devices; the library is ct::linear, whose product adds the bias, and ct::relu_ in place.
Ladder ladder(DeviceType device, std::vector<Case> small, std::vector<Case> timed,
              void (*three_passes)(const Call&), void (*two_passes)(const Call&), void (*fused)(const Call&));

}  // namespace ct::ladder::linear_relu
