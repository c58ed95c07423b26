#pragma once

#include "bench/ladders/ladder.h"

// Shared parts of the product ladders of both devices: a case is m, n, k.

namespace ct::ladder::gemm {

inline constexpr const char* kWhat = "C = A B, m x n x k";

/// 2 m n k operations.
double work(const Case& of);
/// A [m, k] and B [k, n] of normal random numbers, the same in every run.
Tensors inputs(const Case& of);
/// Three loops over f64.
Tensors plain(const Tensors& in);
/// ct::matmul: the library's own product on the CPU, cuBLASLt's on the GPU.
Tensors library(const Tensors& in);

}  // namespace ct::ladder::gemm
