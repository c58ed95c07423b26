#pragma once

// Visibility and host/device markers.
//
// CT_API marks what the shared library exports; everything else is hidden (the build sets
// -fvisibility=hidden), so that the exported surface is the documented one.
// CT_HD marks a function that is compiled for the host and, under nvcc, for the device as well:
// formulas that both devices must agree on are written once.

#if __cplusplus < 202002L
#error "Cotangent needs C++20: compile with -std=c++20 (CMake: target_compile_features, cxx_std_20)"
#endif

#define CT_API __attribute__((visibility("default")))

#if defined(__CUDACC__)
#define CT_HD __host__ __device__
#else
#define CT_HD
#endif
