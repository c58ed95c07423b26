#pragma once

#include <cotangent/nn/data/idx.h>
#include <cotangent/nn/io/source_internal.h>

namespace ct::data {

CT_API Tensor read_idx(const io::ByteSource& source);

}  // namespace ct::data
