#pragma once

#include "bench/ladders/ladder.h"

namespace ct::ladder::softmax {

/// The rung of Hopper's copy engine: rows of up to 65,536 numbers, a multiple of 4.
void copy_engine(const Call& call);

}  // namespace ct::ladder::softmax
