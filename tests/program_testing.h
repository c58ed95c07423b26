#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/op_testing.h"

// Helpers for tests of programs of formulas.

namespace ct::testing {

// Elements, beyond those whose bits differ, for a message; -1 where all are the same. Any NaN equals any other.
inline std::int64_t first_difference(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) return 0;
  const std::vector<double> x = values(a), y = values(b);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::memcmp(&x[i], &y[i], sizeof x[i]) != 0 && !(std::isnan(x[i]) && std::isnan(y[i])))
      return static_cast<std::int64_t>(i);
  return -1;
}
inline std::vector<const Tensor*> pointers(const std::vector<Tensor>& list) {
  std::vector<const Tensor*> result;
  for (const Tensor& t : list) result.push_back(&t);
  return result;
}

}  // namespace ct::testing
