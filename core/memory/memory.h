#pragma once

#include <cstddef>

#include <cotangent/core/base/export.h>
#include <cotangent/core/device/device.h>

// Moving bytes between and within devices, on the current stream of the device concerned.

namespace ct {

/// Copies `bytes` bytes; the ranges must not overlap. Zero bytes do nothing.
///
/// | from, to        | async = false                       | async = true                                |
/// |-----------------|-------------------------------------|---------------------------------------------|
/// | CPU to CPU      | done on return                      | same                                        |
/// | CPU to GPU      | `src` may be changed on return      | the same from pageable memory; from pinned   |
/// |                 | (waits only if `src` is pinned)     | memory `src` must stay until the copy is done|
/// | GPU to CPU      | done on return: waits, see below    | from pageable: the same; into pinned memory  |
/// |                 |                                     | `dst` is valid after a synchronize()         |
/// | GPU to same GPU | queued in stream order              | same                                        |
/// | GPU to other GPU| queued; ordered after `src`'s stream| same                                        |
///
/// A copy to the CPU that waits counts as an implicit synchronisation (note_sync) and throws IndexError
/// if a kernel met a bad index. Between two GPUs the copy runs on `src`'s current stream; `dst`'s current
/// stream waits for it, and it waits for what `dst`'s stream has queued. Throws CudaError, DeviceError.
CT_API void copy_bytes(void* dst, Device dst_device, const void* src, Device src_device, std::size_t bytes,
                       bool async = false);

/// Sets `bytes` bytes to `value`, queued on the current stream of `device`.
CT_API void fill_bytes(void* dst, Device device, int value, std::size_t bytes);

/// fill_bytes() with 0.
inline void zero_bytes(void* dst, Device device, std::size_t bytes) { fill_bytes(dst, device, 0, bytes); }

}  // namespace ct
