#pragma once

#include <cstdint>

#include <cotangent/ops/collective/collective.h>

namespace ct::dist::detail {

struct CollectiveAttrs {
  std::uint64_t group = 0;  // its number; 0: a rank alone
  ReduceOp op = ReduceOp::sum;
  bool later = false;
  std::int32_t root = 0;
};

}  // namespace ct::dist::detail
