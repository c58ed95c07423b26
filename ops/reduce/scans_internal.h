#pragma once

#include <cotangent/core/op/op_def.h>

namespace ct::reduce::scans {

struct Attrs {
  std::int64_t axis;
  bool reverse = false;  // cumsum and linear_recurrence alone
};

}  // namespace ct::reduce::scans
