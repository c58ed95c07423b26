#pragma once

#include <cotangent/core/device/index_error.h>

// Index errors found by kernels. For .cu files only. The host gives a kernel two arguments:
//
//     gpu::launch(op, kernel, grid, block, 0, ..., gpu::index_errors(), IndexSite{op, IndexKind::token});
//
// and the kernel, instead of using a bad index:
//
//     if (token < 0 || token >= rows) { gpu::report_index_error(errors, site, token, rows); return; }

namespace ct::gpu {

#ifndef CT_KERNEL_TEXT  // which has no code of the host
/// The record of the current device, to be passed to kernels.
inline ct::detail::DeviceErrors* index_errors() {
  return ct::detail::device_errors(cuda(current_cuda_device()));
}
#endif

#if defined(__CUDACC__)
/// Notes the error; the first of many wins and the others cost a read. The kernel goes on. Which of
/// several bad elements of one launch is reported may differ from run to run. `site` comes from the host as
/// a kernel argument: in a constant of the .cu file the address of the op's name would be the device's.
__device__ inline void report_index_error(ct::detail::DeviceErrors* errors, IndexSite site, long long value,
                                          long long limit) {
  if (*reinterpret_cast<volatile int*>(&errors->state) != 0) return;
  if (atomicCAS(reinterpret_cast<int*>(&errors->state), 0, 1) != 0) return;
  errors->site = site;
  errors->value = value;
  errors->limit = limit;
  __threadfence_system();  // the record is complete before the host can see that it is
  *reinterpret_cast<volatile int*>(&errors->state) = 2;
}
#endif

}  // namespace ct::gpu
