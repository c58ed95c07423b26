#pragma once

#include <cstdint>

namespace ct {

/// Use of the normalized rows of add_layer_norm and add_rms_norm. It matters under Autocast alone.
enum class NormUse : std::uint8_t {
  product,  // they go into products: rounded once, to the dtype that those are computed in
  stream,   // they are the residual stream itself, as in a post-norm transformer: kept in f32
};

}  // namespace ct
