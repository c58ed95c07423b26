#pragma once

#include <cotangent/core/op_def.h>

namespace ct::indexing_ops {

struct Attrs {
  std::int64_t axis;
};

}  // namespace ct::indexing_ops
