#include <cotangent/core/device/stream.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

#include <cotangent/core/device/index_error.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/core/device/runtime_internal.h>

namespace ct {

namespace runtime = detail::runtime;

namespace {

struct CurrentStream {
  void* native;
  std::int32_t id;
};
// Zero for every device: its default stream.
__thread CurrentStream t_current[kMaxCudaDevices];
__thread SyncPolicy t_sync_policy = SyncPolicy::allow;
std::atomic<std::uint64_t> g_sync_count{0};

constexpr int kPoolSize = 32;
struct StreamPool {
  std::mutex mutex;
  void* streams[2][kPoolSize] = {};
  unsigned next[2] = {};
};
StreamPool& stream_pool(Device device) {
  static StreamPool* const pools = new StreamPool[kMaxCudaDevices];  // streams live as long as the process
  return pools[device.index];
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void set_current(const Stream& stream) {
  t_current[stream.device.index] = CurrentStream{stream.native, stream.id};
}

}  // namespace

namespace detail {
Stream current_cuda_stream(Device device) {
  if (device.index >= kMaxCudaDevices) check_device("stream", device);
  const CurrentStream& current = t_current[device.index];
  return Stream{current.native, device, current.id};
}
}  // namespace detail

Stream new_stream(Device device, int priority) {
  if (device.is_cpu()) return Stream{};
  DeviceGuard guard(device);
  const int level = priority < 0 ? 1 : 0;
  StreamPool& pool = stream_pool(device);
  std::lock_guard lock(pool.mutex);
  const int slot = static_cast<int>(pool.next[level]++ % kPoolSize);
  void*& native = pool.streams[level][slot];
  if (!native) native = runtime::stream_create(-level);
  return Stream{native, device, 1 + level * kPoolSize + slot};
}

void Stream::synchronize() const {
  if (device.is_cpu()) return;
  DeviceGuard guard(device);
  runtime::stream_synchronize(native);
  raise_pending_device_errors(device);
}

bool Stream::query() const {
  if (device.is_cpu()) return true;
  DeviceGuard guard(device);
  return runtime::stream_query(native);
}

void Stream::wait(const Event& event) const { event.wait(*this); }

StreamGuard::StreamGuard(const Stream& stream) : device_(stream.device) {
  previous_ = current_stream(stream.device);
  if (stream.device.is_cuda()) set_current(stream);
}

StreamGuard::~StreamGuard() {
  if (previous_.device.is_cuda()) set_current(previous_);
}

Event::~Event() {
  if (native_) runtime::event_destroy(native_);
}

Event::Event(Event&& other) noexcept
    : native_(std::exchange(other.native_, nullptr)),
      host_ns_(other.host_ns_),
      device_(other.device_),
      timing_(other.timing_),
      recorded_(std::exchange(other.recorded_, false)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(native_, other.native_);
  std::swap(host_ns_, other.host_ns_);
  std::swap(device_, other.device_);
  std::swap(timing_, other.timing_);
  std::swap(recorded_, other.recorded_);
  return *this;
}

void Event::record(const Stream& stream) {
  if (stream.device.is_cpu()) {
    CT_CHECK(!native_, DeviceError, "event", "was recorded on ", device_,
             " and now on cpu; use one event per device");
    if (timing_) host_ns_ = now_ns();
    recorded_ = true;
    return;
  }
  CT_CHECK(!recorded_ || device_ == stream.device, DeviceError, "event", "was recorded on ", device_,
           " and now on ", stream.device, "; use one event per device");
  DeviceGuard guard(stream.device);
  if (!native_) native_ = runtime::event_create(timing_);
  runtime::event_record(native_, stream.native);
  device_ = stream.device;
  recorded_ = true;
}

void Event::wait(const Stream& stream) const {
  if (!native_ || !recorded_) return;
  if (stream.device.is_cpu()) {  // the only way for host work to come after device work
    synchronize();
    return;
  }
  DeviceGuard guard(stream.device);
  runtime::stream_wait(stream.native, native_);
}

void Event::synchronize() const {
  if (!native_ || !recorded_) return;
  runtime::event_synchronize(native_);
  raise_pending_device_errors(device_);
}

bool Event::query() const { return !native_ || !recorded_ || runtime::event_query(native_); }

double Event::elapsed_ms(const Event& later) const {
  CT_CHECK(timing_ && later.timing_ && recorded_ && later.recorded_, DeviceError, "event",
           "elapsed_ms needs two recorded events with time stamps; make them with Event(true)");
  CT_CHECK(device_ == later.device_, DeviceError, "event", "elapsed_ms between ", device_, " and ",
           later.device_, "; both events must be of one device");
  if (!native_) return static_cast<double>(later.host_ns_ - host_ns_) * 1e-6;
  runtime::event_synchronize(native_);
  runtime::event_synchronize(later.native_);
  return runtime::event_elapsed_ms(native_, later.native_);
}

void synchronize(Device device) {
  if (device.is_cpu()) return;
  DeviceGuard guard(device);
  runtime::device_synchronize();
  raise_pending_device_errors(device);
}

SyncPolicy set_sync_policy(SyncPolicy policy) { return std::exchange(t_sync_policy, policy); }

std::uint64_t sync_count() { return g_sync_count.load(std::memory_order_relaxed); }

void note_sync(const char* op) {
  detail::note_read(op);
  CT_CHECK(t_sync_policy == SyncPolicy::allow, DeviceError, op,
           "makes the host wait for the device, which SyncPolicy::error forbids here; keep the value on the "
           "device, or read it less often");
  g_sync_count.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace ct
