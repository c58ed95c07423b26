#pragma once

#include <cotangent/core/op/op_def.h>

namespace ct {

struct CopyAttrs {
  DType dtype;
};
struct ToDeviceAttrs {
  Device device;
};
struct FillAttrs {
  Scalar value;
};

}  // namespace ct
