#pragma once

#include <cotangent/core/tensor/tensor.h>

// Conversions and copies. The public interface are members of Tensor: to(dtype), to(device), clone,
// contiguous, pin_memory, copy_, fill_, zero_, item, to_vector. They are described in core/tensor/tensor.h.
//
// Conversion: to bool is "!= 0"; a floating value becomes an integer by truncation towards zero,
// where values outside the integer's range give its nearest end and NaN gives 0 (u8 keeps the low 8 bits of
// the truncated number, as conversions among integers do); narrower floating types round to nearest
// even (f64 becomes f32 on its way to 16 bits).
