#pragma once

#include <cotangent/core/op/op_def.h>

namespace ct::pad_op {

struct Attrs {
  Dims before, after;  // by axis, none negative
  Scalar value;
};

}  // namespace ct::pad_op
