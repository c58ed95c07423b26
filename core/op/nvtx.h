#pragma once

#include <cotangent/core/base/export.h>

namespace ct {

/// Names every kernel in NVIDIA's profilers: while on, each op runs in an NVTX range with its name, and its
/// backward in one called "NAME backward", so that `nsys profile` and `ncu --nvtx` show ops instead of
/// mangled kernels. Returns whether the ranges were on before. Off by default; on, an op costs some tens of
/// nanoseconds more while no profiler listens.
///
/// Installs an OpObserver (set_op_observer), in place of the one that was there; switching off takes it out
/// again. In a build without CUDA nothing happens.
CT_API bool set_nvtx_ranges(bool on);

}  // namespace ct
