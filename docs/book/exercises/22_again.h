#pragma once

#include <cstdint>

// The order in which examples are looked at, without a list of them.

namespace answer {

/// The example that is the i-th of epoch `epoch`, 0 <= i < n: of n examples each comes once in an epoch, epochs and seeds have
/// different orders, and nothing is remembered. So a run that is taken up again has to know two numbers, epoch and i.
///
/// Two things help. A function that can be undone takes different numbers to different numbers: with halves L and R of a number, (L,
/// R) -> (R, L ^ f(R)) can be undone whatever f is. And a result that is too large may be put in again.
inline std::uint64_t example(std::uint64_t i, std::uint64_t n, std::uint64_t epoch, std::uint64_t seed) {
  return (i + epoch * 7919 + seed) % n;  // each once, but neighbours stay neighbours: yours
}

}  // namespace answer
