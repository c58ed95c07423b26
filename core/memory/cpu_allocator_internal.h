#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <cotangent/core/memory/allocator.h>
#include <cotangent/core/memory/block_heap_internal.h>
#include <cotangent/core/memory/pool.h>

// The default allocator of the CPU. Internal; see cpu_allocator.cpp for the design.

namespace ct::detail {

class CpuAllocator : public Allocator {
 public:
  CpuAllocator();
  void* allocate(std::size_t bytes, const Stream& stream) override;
  void deallocate(void* block, std::size_t bytes, const Stream& stream) noexcept override;
  void empty_cache() override;
  MemoryStats stats() const override;
  void reset_peak() override;
  void set_limit(std::size_t bytes) override;

 private:
  struct FreeBlock {
    FreeBlock* next;
    const void* thread;  // which freed it
  };
  struct Bin {
    FreeBlock* head = nullptr;
    std::uint64_t last_use = 0;
  };
  static constexpr int kBins = 8 * 32;  // 8 sizes per doubling from 32 KiB to 128 TiB

  void* allocate_slowly(std::size_t bytes);
  void deallocate_slowly(void* block, std::size_t bytes) noexcept;
  void count_small(std::int64_t bytes) noexcept;
  void count_small(PoolCache& cache, std::atomic<std::uint64_t>& calls, std::int64_t bytes) noexcept;
  void publish(std::int64_t bytes) noexcept;
  void raise_peak() noexcept;
  static FreeBlock** choose(Bin& bin);
  void* allocate_large(std::size_t bytes);
  void deallocate_large(void* block, std::size_t bytes) noexcept;
  bool exceeds_limit(std::size_t size) const;
  void* find(std::size_t size);
  void* cut(std::size_t size);
  void give_back(void* block, std::size_t size) noexcept;
  void release_ranges() noexcept;
  void* from_system(std::size_t bytes);
  void to_system(void* block, std::size_t bytes) noexcept;
  void trim(std::size_t most_cached) noexcept;
  [[noreturn]] void fail_out_of_memory(std::size_t bytes);

  std::atomic<std::int64_t> in_use_{0};  // what threads have published, and all large blocks
  std::atomic<std::int64_t> peak_in_use_{0};

  mutable std::mutex mutex_;  // everything below
  Bin bins_[kBins];
  std::uint64_t tick_ = 0;
  BlockHeap ranges_{kPoolAlign};  // that blocks below 2 MiB are cut from,
  BlockMap cuts_;                 // those blocks,
  std::size_t cut_ = 0;           // and their bytes
  std::size_t cached_ = 0;
  std::size_t reserved_ = 0;  // without the pool's slabs
  std::size_t peak_reserved_ = 0;
  std::size_t limit_ = 0;
  std::size_t most_cached_ = 0;
  std::uint64_t requests_ = 0, releases_ = 0, allocations_ = 0, frees_ = 0;
};

}  // namespace ct::detail
