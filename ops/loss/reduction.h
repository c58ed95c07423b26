#pragma once

#include <cstdint>
#include <string_view>

namespace ct {

/// What a loss does with the losses of its elements (or rows).
enum class Reduction : std::uint8_t {
  none,  ///< one loss per element (row)
  mean,  ///< their mean, weighted where the loss has weights
  sum,   ///< their sum
};

/// The names of its values, for the records of attributes.
inline constexpr const char* kReductionNames = "none mean sum";

/// "none", "mean", "sum".
constexpr std::string_view name(Reduction r) {
  return r == Reduction::none ? "none" : r == Reduction::mean ? "mean" : "sum";
}

}  // namespace ct
