#include <cotangent/core/device/index_error.h>

#include <atomic>
#include <mutex>
#include <new>

#include <cotangent/core/device/runtime_internal.h>

namespace ct {

namespace {
std::atomic<detail::DeviceErrors*> g_records[kMaxCudaDevices];
}  // namespace

void throw_index_error(const char* op, IndexKind kind, std::int64_t value, std::int64_t limit) {
  switch (kind) {
    case IndexKind::class_label:
      detail::fail<IndexError>(op, "class label ", value, " is out of range for ", limit,
                               " classes; labels must lie in [0, ", limit, ") or equal ignore_index");
    case IndexKind::token:
      detail::fail<IndexError>(op, "token ", value, " is out of range for a table of ", limit,
                               " rows; tokens must lie in [0, ", limit, ")");
    case IndexKind::position:
      detail::fail<IndexError>(op, "index ", value, " is out of range for an axis of size ", limit,
                               "; indices must lie in [0, ", limit, ")");
    case IndexKind::index: break;
  }
  detail::fail<IndexError>(op, "index ", value, " is out of range for an axis of size ", limit,
                           "; indices must lie in [", -limit, ", ", limit, ")");
}

namespace detail {

DeviceErrors* device_errors(Device device) {
  check_device("device errors", device);
  std::atomic<DeviceErrors*>& slot = g_records[device.index];
  DeviceErrors* record = slot.load(std::memory_order_acquire);
  if (record) [[likely]]
    return record;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  record = slot.load(std::memory_order_acquire);
  if (record) return record;
  DeviceGuard guard(device);
  void* memory = runtime::host_malloc(sizeof(DeviceErrors));
  CT_CHECK(memory, OutOfMemoryError, "allocator", "no page-locked host memory for ", device,
           "; free some, or raise the limit of locked memory (ulimit -l)");
  record = new (memory) DeviceErrors{};
  slot.store(record, std::memory_order_release);
  return record;
}

}  // namespace detail

void raise_pending_device_errors(Device device) {
  if (!device.is_cuda() || device.index >= kMaxCudaDevices) return;
  detail::DeviceErrors* record = g_records[device.index].load(std::memory_order_acquire);
  if (!record) return;
  std::atomic_ref<std::int32_t> state(record->state);
  // Only one of several threads that wait at the same time throws.
  std::int32_t complete = 2;
  if (state.load(std::memory_order_acquire) != complete) return;
  const detail::DeviceErrors seen = *record;
  if (!state.compare_exchange_strong(complete, 0, std::memory_order_acq_rel)) return;
  throw_index_error(seen.site, seen.value, seen.limit);
}

}  // namespace ct
