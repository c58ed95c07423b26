#include <cotangent/core/memory/allocator.h>

#include <algorithm>
#include <iomanip>
#include <mutex>
#include <sstream>
#include <utility>
#include <vector>

#include <cotangent/core/device/runtime_internal.h>
#include <cotangent/core/memory/caching_allocator_internal.h>
#include <cotangent/core/memory/cpu_allocator_internal.h>
#include <cotangent/core/memory/memory_text_internal.h>
#include <cotangent/core/memory/pool_blocks_internal.h>

namespace ct {

namespace detail {

std::atomic<Allocator*> g_current_allocators[1 + kMaxCudaDevices];

std::string format_bytes(std::size_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1023.995 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  return fixed(value, 2) + ' ' + units[unit];
}

MemoryPoolId& thread_memory_pool(int slot) noexcept {
  static __thread MemoryPoolId pools[1 + kMaxCudaDevices];
  return pools[slot];
}

namespace {

// Marks are CUDA events, reused.
class EventSource : public MemorySource {
 public:
  void* mark(const Stream& stream) override {
    DeviceGuard guard(stream.device);
    std::vector<void*>& spare = spare_[stream.device.index];
    void* event;
    if (spare.empty()) {
      event = runtime::event_create(false);
    } else {
      event = spare.back();
      spare.pop_back();
    }
    runtime::event_record(event, stream.native);
    return new Mark{event, stream.device.index};
  }
  bool reached(void* mark) override { return runtime::event_query(static_cast<Mark*>(mark)->event); }
  void wait(void* mark) override { runtime::event_synchronize(static_cast<Mark*>(mark)->event); }
  void forget(void* opaque) noexcept override {
    Mark* mark = static_cast<Mark*>(opaque);
    try {
      spare_[mark->device].push_back(mark->event);
    } catch (const std::bad_alloc&) { runtime::event_destroy(mark->event); }
    delete mark;
  }

 private:
  struct Mark : Pooled {
    Mark(void* e, int d) : event(e), device(d) {}
    void* event;
    int device;
  };
  std::vector<void*> spare_[kMaxCudaDevices];  // under the allocator's lock
};

class DeviceSource : public EventSource {
 public:
  explicit DeviceSource(Device device) : device_(device) {}
  void* reserve(std::size_t bytes) override {
    DeviceGuard guard(device_);
    return runtime::device_malloc(bytes);
  }
  void release(void* memory, std::size_t) noexcept override { runtime::device_free(memory); }
  bool capacity(std::size_t* free, std::size_t* total) noexcept override {
    try {
      DeviceGuard guard(device_);
      return runtime::memory_info(free, total);
    } catch (const Error&) { return false; }
  }

 private:
  Device device_;
};

class PinnedSource : public EventSource {
 public:
  void* reserve(std::size_t bytes) override { return runtime::host_malloc(bytes); }
  void release(void* memory, std::size_t) noexcept override { runtime::host_free(memory); }
  bool capacity(std::size_t*, std::size_t*) noexcept override { return false; }
};

// The allocators in force, and every allocator that ever was: see the lifetime rule in allocator.h.
struct Registry {
  std::mutex mutex;
  std::shared_ptr<Allocator> current[1 + kMaxCudaDevices];
  std::vector<std::shared_ptr<Allocator>> kept;
  std::vector<std::pair<Device, MemoryPoolId>> pools;  // that were made and are not released
};
Registry& registry() {
  static Registry& r = *new Registry;
  return r;
}

int slot_of(Device device) { return device.is_cpu() ? 0 : 1 + device.index; }

Allocator& default_allocator(Device device) {
  if (device.is_cuda()) return cuda_caching_allocator(device);
  return default_cpu_allocator();
}

}  // namespace

CachingAllocator& cuda_caching_allocator(Device device) {
  struct Slots {
    std::mutex mutex;
    CachingAllocator* allocators[kMaxCudaDevices] = {};
  };
  static Slots& slots = *new Slots;
  check_device("allocator", device);
  std::lock_guard lock(slots.mutex);
  CachingAllocator*& slot = slots.allocators[device.index];
  if (!slot) slot = new CachingAllocator(*new DeviceSource(device), to_string(device), slot_of(device));
  return *slot;
}

CachingAllocator& pinned_caching_allocator() {
  static CachingAllocator& pinned = *new CachingAllocator(*new PinnedSource, "page-locked host memory", -1);
  return pinned;
}

Allocator& install_default_allocator(Device device) {
  check_device("allocator", device);
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::shared_ptr<Allocator>& slot = r.current[slot_of(device)];
  if (!slot) {
    r.kept.reserve(r.kept.size() + 1);
    slot = std::shared_ptr<Allocator>(&default_allocator(device), [](Allocator*) {});
    r.kept.push_back(slot);  // so that going back to it can't fail
  }
  g_current_allocators[slot_of(device)].store(slot.get(), std::memory_order_release);
  return *slot;
}

}  // namespace detail

void Allocator::record_stream(void*, std::size_t, const Stream&) {}
void Allocator::empty_cache() {}
MemoryStats Allocator::stats() const { return {}; }
void Allocator::reset_peak() {}
void Allocator::set_limit(std::size_t) {
  detail::fail<ValueError>(
      "allocator", "this allocator has no limit to set; use one that has, such as the caching allocator");
}

std::shared_ptr<Allocator> allocator(Device device) {
  current_allocator(device);
  detail::Registry& r = detail::registry();
  std::lock_guard lock(r.mutex);
  return r.current[detail::slot_of(device)];
}

void set_allocator(Device device, std::shared_ptr<Allocator> replacement) {
  CT_CHECK(replacement, ValueError, "allocator", "got null for ", device, "; an allocator is needed");
  check_device("allocator", device);
  detail::Registry& r = detail::registry();
  std::lock_guard lock(r.mutex);
  if (std::find(r.kept.begin(), r.kept.end(), replacement) == r.kept.end()) r.kept.push_back(replacement);
  std::shared_ptr<Allocator>& slot = r.current[detail::slot_of(device)];
  slot = std::move(replacement);
  detail::g_current_allocators[detail::slot_of(device)].store(slot.get(), std::memory_order_release);
}

Allocator& pinned_allocator() {
  if (!cuda_is_available()) return current_allocator(cpu);
  return detail::pinned_caching_allocator();
}

MemoryStats memory_stats(Device device) {
  if (device.is_cuda() && device.index >= cuda_device_count()) return {};
  return current_allocator(device).stats();
}

std::string memory_summary(Device device) {
  const MemoryStats stats = memory_stats(device);
  std::ostringstream out = detail::text_stream();
  out << "memory of " << device << '\n';
  const auto bytes = [&](const char* label, std::size_t value) {
    out << "  " << std::left << std::setw(22) << label << std::right << std::setw(14)
        << detail::format_bytes(value) << '\n';
  };
  const auto count = [&](const char* label, std::uint64_t value) {
    out << "  " << std::left << std::setw(22) << label << std::right << std::setw(14) << value << '\n';
  };
  bytes("in use", stats.in_use);
  bytes("in use, peak", stats.peak_in_use);
  bytes("cached", stats.cached);
  bytes("held from the system", stats.reserved);
  bytes("held, peak", stats.peak_reserved);
  count("requests", stats.requests);
  count("releases", stats.releases);
  count("system allocations", stats.allocations);
  count("system frees", stats.frees);
  return std::move(out).str();
}

void reset_peak_stats(Device device) { current_allocator(device).reset_peak(); }

void empty_cache(Device device) { current_allocator(device).empty_cache(); }

void empty_cache() {
  // Only allocators that exist: looking must not start a driver.
  for (std::atomic<Allocator*>& slot : detail::g_current_allocators)
    if (Allocator* found = slot.load(std::memory_order_acquire)) found->empty_cache();
  if (cuda_is_available()) detail::pinned_caching_allocator().empty_cache();
}

MemoryPoolId make_memory_pool(Device device) {
  static std::atomic<MemoryPoolId> next{1};
  check_device("make_memory_pool", device);
  const MemoryPoolId pool = next.fetch_add(1, std::memory_order_relaxed);
  if (device.is_cpu()) detail::default_cpu_allocator().make_pool(pool);
  detail::Registry& r = detail::registry();
  const std::lock_guard lock(r.mutex);
  r.pools.emplace_back(device, pool);
  return pool;
}

void release_memory_pool(Device device, MemoryPoolId pool) noexcept {
  detail::Registry& r = detail::registry();
  {
    const std::lock_guard lock(r.mutex);
    if (std::erase(r.pools, std::pair(device, pool)) == 0) return;
  }
  if (device.is_cpu()) return detail::default_cpu_allocator().release_pool(pool);
  detail::cuda_caching_allocator(device).release_pool(pool);
}

std::size_t memory_pool_bytes(Device device, MemoryPoolId pool) {
  check_device("memory_pool_bytes", device);
  return device.is_cpu() ? detail::default_cpu_allocator().pool_bytes(pool)
                         : detail::cuda_caching_allocator(device).pool_bytes(pool);
}

bool detail::is_taken(Device device, MemoryPoolId pool, const void* block) {
  return device.is_cpu() ? default_cpu_allocator().is_taken(pool, block)
                         : cuda_caching_allocator(device).is_taken(block);
}

MemoryPoolGuard::MemoryPoolGuard(Device device, MemoryPoolId pool) : device_(device), pool_(pool) {
  check_device("MemoryPoolGuard", device);
  if (pool != 0) {
    detail::Registry& r = detail::registry();
    const std::lock_guard lock(r.mutex);
    const bool known = std::find(r.pools.begin(), r.pools.end(), std::pair(device, pool)) != r.pools.end();
    CT_CHECK(known, ValueError, "MemoryPoolGuard", device, " has no memory pool ", pool,
             ": it was made for another device, or is released; make_memory_pool(device) makes one");
    if (device.is_cpu()) detail::g_cpu_pool_guards.fetch_add(1, std::memory_order_relaxed);
  }
  previous_ = std::exchange(detail::thread_memory_pool(detail::slot_of(device)), pool);
}

MemoryPoolGuard::~MemoryPoolGuard() {
  detail::thread_memory_pool(detail::slot_of(device_)) = previous_;
  if (device_.is_cpu() && pool_ != 0) detail::g_cpu_pool_guards.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace ct
