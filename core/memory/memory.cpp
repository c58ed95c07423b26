#include <cotangent/core/memory/memory.h>

#include <cstring>

#include <cotangent/core/device/index_error.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/core/device/runtime_internal.h>
#include <cotangent/core/device/stream.h>

namespace ct {

namespace runtime = detail::runtime;

namespace {

void to_device(void* dst, Device device, const void* src, std::size_t bytes, bool async) {
  DeviceGuard guard(device);
  const Stream stream = current_stream(device);
  // From pageable memory the runtime has read the source when the call returns.
  const bool must_wait = !async && runtime::is_pinned(src);
  if (must_wait) note_sync("copy");
  runtime::copy(dst, src, bytes, stream.native);
  if (must_wait) stream.synchronize();
}

void to_host(void* dst, const void* src, Device device, std::size_t bytes, bool async) {
  DeviceGuard guard(device);
  const Stream stream = current_stream(device);
  const bool must_wait = !async || !runtime::is_pinned(dst);
  if (must_wait) note_sync("copy");
  runtime::copy(dst, src, bytes, stream.native);
  if (must_wait) stream.synchronize();
}

void across_devices(void* dst, Device dst_device, const void* src, Device src_device, std::size_t bytes) {
  const Stream from = current_stream(src_device);
  const Stream to = current_stream(dst_device);
  Event dst_ready, copied;
  dst_ready.record(to);
  from.wait(dst_ready);
  {
    DeviceGuard guard(src_device);
    runtime::copy(dst, src, bytes, from.native);
  }
  copied.record(from);
  to.wait(copied);
}

}  // namespace

void copy_bytes(void* dst, Device dst_device, const void* src, Device src_device, std::size_t bytes,
                bool async) {
  if (bytes == 0) return;
  Recording* const step = dst_device.is_cuda() && !(dst_device == src_device) ? detail::recording() : nullptr;
  if (step)
    step->refuse(
        "copy",
        "brings values from elsewhere to the step's device, which is no call of an op; give them as an "
        "argument");
  if (dst_device.is_cpu() && src_device.is_cpu()) {
    std::memcpy(dst, src, bytes);
  } else if (src_device.is_cpu()) {
    to_device(dst, dst_device, src, bytes, async);
  } else if (dst_device.is_cpu()) {
    to_host(dst, src, src_device, bytes, async);
  } else if (dst_device == src_device) {
    DeviceGuard guard(dst_device);
    runtime::copy(dst, src, bytes, current_stream(dst_device).native);
  } else {
    across_devices(dst, dst_device, src, src_device, bytes);
  }
}

void fill_bytes(void* dst, Device device, int value, std::size_t bytes) {
  if (bytes == 0) return;
  if (device.is_cpu()) {
    std::memset(dst, value, bytes);
    return;
  }
  DeviceGuard guard(device);
  runtime::fill(dst, value, bytes, current_stream(device).native);
}

}  // namespace ct
