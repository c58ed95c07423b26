#pragma once

#include <cstdint>

// How many numbers does a network of two layers learn?

namespace answer {

/// The parameters of nn::Sequential(nn::Linear(in, hidden), nn::Tanh(), nn::Linear(hidden, out)).
inline std::int64_t parameters_of(std::int64_t in, std::int64_t hidden, std::int64_t out) {
  return in + hidden + out;  // yours
}

}  // namespace answer
