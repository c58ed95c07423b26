#pragma once

#include <cstdint>

#include <cotangent/core/op_def.h>
#include <cotangent/core/philox.h>

namespace ct::multinomial_kernels {

struct Attrs {
  std::int64_t count;
  bool replacement;
  GeneratorState draw;
};

}  // namespace ct::multinomial_kernels
