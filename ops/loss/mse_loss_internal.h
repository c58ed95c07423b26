#pragma once

#include <cotangent/core/op_def.h>
#include <cotangent/ops/loss/reduction.h>

namespace ct {

struct MseLossAttrs {
  Reduction reduction;
};

}  // namespace ct
