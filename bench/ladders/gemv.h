#pragma once

#include "bench/ladders/ladder.h"

// Shared parts of the matrix-vector ladders of both devices: a case is m, k.

namespace ct::ladder::gemv {

inline constexpr const char* kWhat = "y = A x, m x k";

/// The bytes of A, x and y. A is read once, and is nearly all there is: 2 operations for 4 bytes, so memory is the limit.
double work(const Case& of);
/// A [m, k] and x [k].
Tensors inputs(const Case& of);
/// Two loops over f64.
Tensors plain(const Tensors& in);
/// ct::matmul: the library's own product on the CPU, cuBLASLt's on the GPU.
Tensors library(const Tensors& in);

}  // namespace ct::ladder::gemv
