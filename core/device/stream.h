#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/device/device.h>

// Queues of work on a device. Everything runs on the current stream of the current device of the calling
// thread; work on one stream runs in order, work on two streams needs an Event between them. On the CPU
// work is done when the call returns, so every function here is a no-op for it.

namespace ct {

class Event;

/// A handle to a queue of device work; copied freely, owns nothing. The default is the CPU's only stream.
struct CT_API Stream {
  void* native = nullptr;  ///< the cudaStream_t; null on the CPU and for the GPU's default stream
  Device device;
  std::int32_t id = 0;  ///< 0 for a device's default stream; unique per device

  /// Waits until everything queued so far is done. Throws IndexError if a kernel met a bad index since
  /// the last synchronising call (see core/device/index_error.h).
  void synchronize() const;
  /// True when everything queued so far is done. Never waits.
  bool query() const;
  /// Work queued from now on starts after `event`. The host does not wait.
  void wait(const Event& event) const;

  friend bool operator==(const Stream& a, const Stream& b) {
    return a.native == b.native && a.device == b.device;
  }
};

namespace detail {
CT_API Stream current_cuda_stream(Device device);
}

/// The stream that the calling thread queues work on. Each thread starts with the device's default stream
/// (CUDA's legacy stream, which waits for the default streams of other threads).
inline Stream current_stream(Device device) {
  return device.is_cpu() ? Stream{} : detail::current_cuda_stream(device);
}

/// A stream of its own, taken from a pool: the pool makes up to 32 streams per device and priority, then
/// hands them out again in turn, so no caller owns or destroys one. It does not wait for the default stream.
/// `priority` 0 is normal, -1 is high. For the CPU: its only stream. Throws DeviceError, CudaError.
CT_API Stream new_stream(Device device, int priority = 0);

/// Makes `stream` (and its device) current for the calling thread until the end of the scope.
class CT_API StreamGuard {
 public:
  [[nodiscard]] explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  DeviceGuard device_;
  Stream previous_;
};

/// A mark in a stream. Made on the device of the first record(); movable, not copyable.
/// On the CPU an event is done when it is recorded, and elapsed_ms() reads the steady clock.
class CT_API Event {
 public:
  /// `timing` keeps a time stamp for elapsed_ms(); without it the event is cheaper.
  explicit Event(bool timing = false) : timing_(timing) {}
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  /// Marks the point in `stream` behind the work queued so far. Recording again moves the mark.
  void record(const Stream& stream);
  /// Work queued on `stream` from now on starts after the mark. The host does not wait.
  void wait(const Stream& stream) const;
  /// The host waits for the mark. Throws IndexError like Stream::synchronize().
  void synchronize() const;
  /// True when the mark has been reached, or was never recorded.
  bool query() const;
  /// Milliseconds from this mark to `later`; waits for both. Throws DeviceError unless both were made
  /// with timing and recorded on the same device.
  double elapsed_ms(const Event& later) const;

 private:
  void* native_ = nullptr;
  std::int64_t host_ns_ = 0;
  Device device_;
  bool timing_ = false;
  bool recorded_ = false;
};

/// Waits until everything queued on `device`, on any stream, is done. Throws IndexError if a kernel met a
/// bad index (label, token) since the last synchronising call: the device-side half of index checks.
CT_API void synchronize(Device device);

/// Action on an implicit wait of the host for the device: item(), a copy to the CPU, nonzero().
enum class SyncPolicy : std::uint8_t {
  allow,  ///< it happens, and is counted
  error,  ///< it throws DeviceError before it waits: for finding what stalls a training step
};

/// Sets the calling thread's policy and returns the previous one.
CT_API SyncPolicy set_sync_policy(SyncPolicy policy);
/// The number of implicit waits of this process so far. Explicit synchronize() calls are not counted.
CT_API std::uint64_t sync_count();
/// Called by every function that makes the host wait without being asked to, before it waits: counts, or
/// throws DeviceError naming `op` under SyncPolicy::error.
CT_API void note_sync(const char* op);

/// Sets the calling thread's policy until the end of the scope.
class SyncPolicyGuard {
 public:
  [[nodiscard]] explicit SyncPolicyGuard(SyncPolicy policy) : previous_(set_sync_policy(policy)) {}
  ~SyncPolicyGuard() { set_sync_policy(previous_); }
  SyncPolicyGuard(const SyncPolicyGuard&) = delete;
  SyncPolicyGuard& operator=(const SyncPolicyGuard&) = delete;

 private:
  SyncPolicy previous_;
};

}  // namespace ct
