#pragma once

#include <cstdint>

namespace answer {

/// Each layer has a weight for every pair of an input and an output, and a bias for each output. Tanh has
/// nothing to learn.
inline std::int64_t parameters_of(std::int64_t in, std::int64_t hidden, std::int64_t out) {
  return (in * hidden + hidden) + (hidden * out + out);
}

}  // namespace answer
