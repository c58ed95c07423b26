#pragma once

#include <vector>

#include <cotangent/core/op_def.h>
#include <cotangent/ops/reduce/kinds_internal.h>

// What the ops of this room are tested with (reduce_samples.cpp).

namespace ct::reduction {

template <Kind kind>
std::vector<Sample> samples(SampleMaker& make);
template <Kind kind>
std::vector<ErrorSample> error_samples(SampleMaker& make);

}  // namespace ct::reduction
