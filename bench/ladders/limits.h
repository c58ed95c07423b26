#pragma once

#include "bench/ladders/ladder.h"

namespace ct::ladder {

/// limit_work() on the GPU. Bytes: a copy of 1 GiB. Operations: multiply-adds of f32, and of 16-bit floats those of
/// Hopper's tensor cores. 0 without CUDA, and where there is no such work.
double gpu_limit_work(Unit unit, DType dtype);

/// Queues products of tensor cores on operands that stay where they are, and returns the number of operations; 0 where
/// no code for the device's is built in. hopper/limit.cu has it.
double tensor_core_work();

}  // namespace ct::ladder
