#include <cotangent/core/testing.h>

namespace ct::testing {

FailingAllocator::FailingAllocator(std::shared_ptr<Allocator> inner, std::int64_t fail_at, std::int64_t times)
    : inner_(std::move(inner)), fail_at_(fail_at), times_(times) {}

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
  void* block = inner_->allocate(bytes, stream);
  live_.fetch_add(1);
  return block;
}

void FailingAllocator::deallocate(void* block, std::size_t bytes, const Stream& stream) noexcept {
  inner_->deallocate(block, bytes, stream);
  live_.fetch_sub(1);
}

void FailingAllocator::record_stream(void* block, std::size_t bytes, const Stream& user) {
  inner_->record_stream(block, bytes, user);
}
void FailingAllocator::empty_cache() { inner_->empty_cache(); }
MemoryStats FailingAllocator::stats() const { return inner_->stats(); }
void FailingAllocator::reset_peak() { inner_->reset_peak(); }
void FailingAllocator::set_limit(std::size_t bytes) { inner_->set_limit(bytes); }

}  // namespace ct::testing
