#pragma once

#include "bench/ladders/ladder.h"

namespace ct::ladder::gemm {

/// The rungs of Hopper's tensor cores: a block per tile of C, and as many blocks as there are multiprocessors.
void wgmma(const Call& call);
void wgmma_persistent(const Call& call);

}  // namespace ct::ladder::gemm
