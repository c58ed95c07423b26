#include <cotangent/ops/testing/allocators.h>

#include <cotangent/core/device/stream.h>
#include <cotangent/core/memory/memory.h>

namespace ct::testing {

void* WrappedAllocator::allocate(std::size_t bytes, const Stream& stream) {
  return inner_->allocate(bytes, stream);
}
void WrappedAllocator::deallocate(void* block, std::size_t bytes, const Stream& stream) noexcept {
  inner_->deallocate(block, bytes, stream);
}
void WrappedAllocator::record_stream(void* block, std::size_t bytes, const Stream& user) {
  inner_->record_stream(block, bytes, user);
}
void WrappedAllocator::empty_cache() { inner_->empty_cache(); }
MemoryStats WrappedAllocator::stats() const { return inner_->stats(); }
void WrappedAllocator::reset_peak() { inner_->reset_peak(); }
void WrappedAllocator::set_limit(std::size_t bytes) { inner_->set_limit(bytes); }

void* PoisoningAllocator::allocate(std::size_t bytes, const Stream& stream) {
  void* block = WrappedAllocator::allocate(bytes, stream);
  const StreamGuard guard(stream);
  fill_bytes(block, stream.device, 255, bytes);
  return block;
}

FailingAllocator::FailingAllocator(std::shared_ptr<Allocator> inner, std::int64_t fail_at, std::int64_t times)
    : WrappedAllocator(std::move(inner)), fail_at_(fail_at), times_(times) {}

void FailingAllocator::fail_at(std::int64_t fail_at, std::int64_t times) {
  calls_.store(0);
  times_.store(times);
  fail_at_.store(fail_at);
}

void* FailingAllocator::allocate(std::size_t bytes, const Stream& stream) {
  const std::int64_t call = calls_.fetch_add(1) + 1;
  const std::int64_t first = fail_at_.load();
  CT_CHECK(first == 0 || call < first || call >= first + times_.load(), OutOfMemoryError, "allocator",
           "out of memory on ", stream.device, ": requested ", bytes, " B in call ", call,
           ", which the test allocator was told to fail");
  void* block = WrappedAllocator::allocate(bytes, stream);
  live_.fetch_add(1);
  return block;
}

void FailingAllocator::deallocate(void* block, std::size_t bytes, const Stream& stream) noexcept {
  WrappedAllocator::deallocate(block, bytes, stream);
  live_.fetch_sub(1);
}

}  // namespace ct::testing
