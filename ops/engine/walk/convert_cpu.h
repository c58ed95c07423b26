#pragma once

#include <cstdint>

#include <cotangent/core/base/dtype.h>

namespace ct::walk {

/// Writes n elements without gaps as another dtype (core/base/convert_element.h).
using ConvertRun = void (*)(void* dst, const void* src, std::int64_t n);
ConvertRun converter(DType to, DType from);

}  // namespace ct::walk
