#pragma once

#include <cotangent/core/base/export.h>

namespace ct {

/// Whether f32 products on a GPU may round their operands to TF32 (a mantissa of 10 bits instead of 23),
/// which is several times faster on tensor cores. Off by default; holds for the whole process.
CT_API bool allow_tf32();
CT_API void set_allow_tf32(bool allow);

}  // namespace ct
