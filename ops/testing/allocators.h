#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include <cotangent/core/memory/allocator.h>

// Allocators for tests of this library and of programs that use it. Link Cotangent::testing.

namespace ct::testing {

/// Base of the allocators below: passes everything on to another allocator.
class CT_API WrappedAllocator : public Allocator {
 public:
  explicit WrappedAllocator(std::shared_ptr<Allocator> inner) : inner_(std::move(inner)) {}

  void* allocate(std::size_t bytes, const Stream& stream) override;
  void deallocate(void* block, std::size_t bytes, const Stream& stream) noexcept override;
  void record_stream(void* block, std::size_t bytes, const Stream& user) override;
  void empty_cache() override;
  MemoryStats stats() const override;
  void reset_peak() override;
  void set_limit(std::size_t bytes) override;

 private:
  std::shared_ptr<Allocator> inner_;
};

/// Fills every block with bytes of 255 before it is handed out: NaN in all floating dtypes, -1 in integers.
/// A kernel that reads memory before writing it then gives itself away.
class CT_API PoisoningAllocator final : public WrappedAllocator {
 public:
  using WrappedAllocator::WrappedAllocator;
  void* allocate(std::size_t bytes, const Stream& stream) override;
};

/// Fails chosen calls with OutOfMemoryError. A program that survives each n in turn leaves no half-done state
/// behind:
///     for (int n = 1; ; ++n) {
///       auto failing = std::make_shared<FailingAllocator>(ct::allocator(ct::cpu), n);
///       ct::AllocatorGuard guard(ct::cpu, failing);
///       try { step(); } catch (const ct::OutOfMemoryError&) { check_invariants(); continue; }
///       break;
///     }
class CT_API FailingAllocator : public WrappedAllocator {
 public:
  /// Fails call number `fail_at` (the first is 1), and the `times` - 1 calls after it. 0: never.
  explicit FailingAllocator(std::shared_ptr<Allocator> inner, std::int64_t fail_at = 0,
                            std::int64_t times = 1);

  void* allocate(std::size_t bytes, const Stream& stream) override;
  void deallocate(void* block, std::size_t bytes, const Stream& stream) noexcept override;

  /// allocate() calls so far, failed ones included.
  std::int64_t calls() const { return calls_.load(); }
  /// Blocks handed out and not given back: 0 after a balanced test.
  std::int64_t live_blocks() const { return live_.load(); }
  /// Starts counting again and fails call number `fail_at` from now.
  void fail_at(std::int64_t fail_at, std::int64_t times = 1);

 private:
  std::atomic<std::int64_t> fail_at_, times_, calls_{0}, live_{0};
};

}  // namespace ct::testing
