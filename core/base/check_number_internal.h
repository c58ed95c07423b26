#pragma once

#include <cmath>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <vector>

#include <cotangent/core/base/error.h>

// Checks of the numbers that callers set: rates, probabilities, counts. NaN passes none of them.

namespace ct::detail {

inline void check_finite(const char* op, const char* what, double value) {
  CT_CHECK(std::isfinite(value), ValueError, op, what, " is ", value, "; it must be finite");
}
inline void check_not_negative(const char* op, const char* what, double value) {
  CT_CHECK(std::isfinite(value) && value >= 0, ValueError, op, what, " is ", value,
           "; it must be finite and >= 0");
}
inline void check_positive(const char* op, const char* what, double value) {
  CT_CHECK(std::isfinite(value) && value > 0, ValueError, op, what, " is ", value,
           "; it must be finite and > 0");
}
inline void check_probability(const char* op, const char* what, double value) {
  CT_CHECK(value >= 0 && value <= 1, ValueError, op, what, " is ", value, "; it must lie in [0, 1]");
}

/// Makes room for `count` entries in all, a number that a caller chose. Throws OutOfMemoryError.
template <class T>
void reserve(const char* op, std::vector<T>& list, std::int64_t count) {
  try {
    list.reserve(static_cast<std::size_t>(count));
  } catch (const std::bad_alloc&) {
    fail<OutOfMemoryError>(op, "no memory for a list of ", count, " entries; ask for fewer");
  } catch (const std::length_error&) {
    fail<OutOfMemoryError>(op, "no memory for a list of ", count, " entries; ask for fewer");
  }
}

}  // namespace ct::detail
