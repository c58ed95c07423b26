#pragma once

#include <cstdint>
#include <string_view>

#include <cotangent/core/base/error.h>

namespace ct {

/// Reduction of the losses of elements (or rows).
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

/// The same, or ValueError where it is none of these.
inline Reduction known(const char* op, Reduction r) {
  CT_CHECK(r <= Reduction::sum, ValueError, op, "reduction is number ", static_cast<int>(r),
           "; it must be one of ", kReductionNames);
  return r;
}

}  // namespace ct
