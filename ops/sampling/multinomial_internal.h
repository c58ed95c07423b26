#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <cotangent/core/base/philox.h>
#include <cotangent/core/op/op_def.h>

namespace ct::sampling::weighted {

struct Attrs {
  std::int64_t count;
  bool replacement;
  GeneratorState draw;
};

/// The largest of the n weights of row r; refuses rows that nothing can be drawn from.
template <class T>
double check_weights(const T* row, std::int64_t n, std::int64_t r) {
  double top = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto w = static_cast<double>(static_cast<compute_t<T>>(row[i]));
    CT_CHECK(w >= 0 && std::isfinite(w), ValueError, "multinomial", "weight ", i, " of row ", r, " is ", w,
             "; weights must be finite and not negative");
    top = std::max(top, w);
  }
  CT_CHECK(top > 0, ValueError, "multinomial", "all weights of row ", r,
           " are 0; at least one must be positive");
  return top;
}

/// Fails: nothing is left of row r after `drawn` draws.
[[noreturn]] inline void fail_empty(std::int64_t r, std::int64_t drawn, std::int64_t count) {
  detail::fail<ValueError>("multinomial", "row ", r, " has ", drawn, " positive weights; ", count,
                           " are to be drawn without replacement: ask for fewer, or draw with replacement");
}

}  // namespace ct::sampling::weighted
