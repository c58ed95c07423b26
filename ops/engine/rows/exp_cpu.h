#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/device/kernel_tables.h>

namespace ct {

/// x_i = e^x_i of n numbers, within 2 ulp, from the smallest subnormal up to infinity.
void exp_cpu(double* x, std::int64_t n);

/// The same by the level that runs.
CT_API void exp_in_place(double* x, std::int64_t n);

struct ExpFunctions {
  decltype(&exp_cpu) run;
};
CT_FUNCTION_TABLES(ExpFunctions, exponentials)

}  // namespace ct
