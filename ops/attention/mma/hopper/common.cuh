#pragma once

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/attention/mma/hopper/hopper.h>
#include <cotangent/core/cuda/mma/hopper_tile.cuh>
#include <cotangent/ops/attention/mma/common.cuh>

namespace ct::attention::mma {

/// A tensor of `width` channels as the copy engine sees it, to be read in boxes of `box_rows` rows of one
/// panel.
CUtensorMap tensor_map(const Problem& p, const Rows& rows, int heads, int positions, int width, int box_rows);

}  // namespace ct::attention::mma
