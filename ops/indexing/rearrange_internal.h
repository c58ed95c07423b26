#pragma once

#include <cotangent/core/op/op_def.h>

namespace ct::indexing_impl::padded {

struct Attrs {
  Dims before, after;  // by axis, none negative
  Scalar value;
};

}  // namespace ct::indexing_impl::padded
