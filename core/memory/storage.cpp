#include <cotangent/core/memory/storage.h>

#include <optional>

#include <cotangent/core/memory/block_plan_internal.h>
#include <cotangent/core/memory/cpu_allocator_internal.h>

namespace ct {

Ref<Storage> Storage::allocate(std::size_t bytes, Device device) {
  Ref<Storage> storage = Ref<Storage>::first(new Storage);
  storage->bytes_ = bytes;
  storage->device_ = device;
  if (bytes == 0) return storage;
  const auto take = [](Storage& s) {
    Allocator& from = current_allocator(s.device_);
    s.data_ = from.allocate(s.bytes_, s.stream_);
    s.allocator_ = &from;
  };
  // Apart, so that the common way needs few registers.
  const auto place = [take](Storage & s) __attribute__((noinline)) {
    detail::BlockPlan* const plan = detail::BlockPlan::of(s.device_);
    std::optional<detail::BlockPlan::Turn> turn;
    if (plan) turn.emplace(*plan, s.bytes_);
    s.stream_ = s.device_.is_cpu() ? detail::cpu_pool_stream() : current_stream(s.device_);
    take(s);
    if (turn) turn->placed(s);
  };
  if (!device.is_cpu() || detail::g_cpu_pool_guards.load(std::memory_order_relaxed) > 0) [[unlikely]]
    return place(*storage), storage;
  take(*storage);
  return storage;
}

Ref<Storage> Storage::allocate_pinned(std::size_t bytes) {
  Ref<Storage> storage = Ref<Storage>::first(new Storage);
  storage->bytes_ = bytes;
  storage->pinned_ = true;
  if (bytes == 0) return storage;
  Allocator& from = pinned_allocator();
  storage->data_ = from.allocate(bytes, storage->stream_);
  storage->allocator_ = &from;
  return storage;
}

Ref<Storage> Storage::wrap(void* data, std::size_t bytes, Device device, std::function<void()> release) {
  Ref<Storage> storage = Ref<Storage>::first(new Storage);
  storage->data_ = data;
  storage->bytes_ = bytes;
  storage->device_ = device;
  storage->release_ = std::move(release);
  return storage;
}

Storage::~Storage() {
  if (allocator_) allocator_->deallocate(data_, bytes_, stream_);
  if (release_) release_();
}

std::uint64_t Storage::id() const {
  static constinit std::atomic<std::uint64_t> given{0};
  std::uint64_t id = id_.load(std::memory_order_relaxed);
  if (id != 0) return id;
  const std::uint64_t fresh = given.fetch_add(1, std::memory_order_relaxed) + 1;
  return id_.compare_exchange_strong(id, fresh, std::memory_order_relaxed) ? fresh : id;
}

void Storage::record_stream(const Stream& stream) {
  if (allocator_ && !(stream == stream_)) allocator_->record_stream(data_, bytes_, stream);
}

}  // namespace ct
