#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/device/device.h>

// Labels, tokens and indices that lie outside their range. CPU and CUDA kernels report the same text.
//
// A CPU kernel throws at once. A CUDA kernel can't: it skips the bad element, writes what it saw into a
// record in host memory (core/cuda/device_error.h) and goes on, so the context is never poisoned. The
// next call that waits for the device (item(), a copy to the CPU, synchronize()) throws.

namespace ct {

/// Meaning of an out-of-range number: chooses the sentence.
enum class IndexKind : std::int32_t {
  class_label,  ///< a class number in [0, limit) or ignore_index
  token,        ///< a row of an embedding table, in [0, limit)
  index,        ///< an element along an axis, in [-limit, limit)
  position,     ///< an element along an axis, in [0, limit)
};

/// Names the place that checks: a string literal (the op's name) and the kind. Passed by value to
/// kernels, which hand it back unread.
struct IndexSite {
  const char* op = nullptr;
  IndexKind kind = IndexKind::index;
};

#ifndef CT_KERNEL_TEXT  // which has no code of the host
/// Throws IndexError: "[cross_entropy] class label 11 is out of range for 10 classes; labels must lie in
/// [0, 10) or equal ignore_index".
[[noreturn]] CT_API void throw_index_error(const char* op, IndexKind kind, std::int64_t value,
                                           std::int64_t limit);
[[noreturn]] inline void throw_index_error(const IndexSite& site, std::int64_t value, std::int64_t limit) {
  throw_index_error(site.op, site.kind, value, limit);
}

/// Throws the IndexError that a kernel on `device` has reported since the last call, if any. To be called
/// after the host has waited for the device; costs a load. Further errors of the same time are dropped.
CT_API void raise_pending_device_errors(Device device);
#endif

namespace detail {

/// Record that kernels write and the host reads: one per device, in page-locked memory that both address.
struct DeviceErrors {
  std::int32_t state;  ///< 0: none; 1: a thread of a kernel is writing; 2: complete
  IndexSite site;
  long long value;
  long long limit;
};

#ifndef CT_KERNEL_TEXT
/// The record of `device`, made at the first call. Throws DeviceError, OutOfMemoryError.
CT_API DeviceErrors* device_errors(Device device);
#endif

}  // namespace detail

}  // namespace ct
