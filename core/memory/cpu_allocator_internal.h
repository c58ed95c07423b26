#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

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

  void make_pool(MemoryPoolId id);
  void release_pool(MemoryPoolId id) noexcept;
  std::size_t pool_bytes(MemoryPoolId id) const;
  /// Whether a block of the pool lies at `address`.
  bool uses(MemoryPoolId id, const void* address) const noexcept;

 private:
  struct FreeBlock {
    FreeBlock* next;
    const void* thread;  // which freed it
  };
  struct Bin {
    FreeBlock* head = nullptr;
    std::uint64_t last_use = 0;
  };
  static constexpr std::size_t kLargestRequest = std::size_t{1} << 46;
  static constexpr int kBins = 8 * 32;  // 8 sizes per doubling from 32 KiB to 128 TiB
  // Ranges of 2 MiB, or more for a block that is larger, and the blocks cut from them.
  struct Ranges {
    explicit Ranges(Fit fit) : heap(kPoolAlign, fit) {}
    BlockHeap heap;
    BlockMap cuts;
  };
  struct Pool : Ranges {
    explicit Pool(MemoryPoolId i) : Ranges(Fit::first), id(i) {}
    const MemoryPoolId id;
    bool released = false;  // its free ranges go back to the system
  };

  void* allocate_slowly(std::size_t bytes, const Stream& stream);
  void deallocate_slowly(void* block, std::size_t bytes, const Stream& stream) noexcept;
  void* allocate_in(MemoryPoolId id, std::size_t bytes);
  void deallocate_in(MemoryPoolId id, void* block) noexcept;
  Pool* find_pool(MemoryPoolId id) const noexcept;
  void count_small(std::int64_t bytes) noexcept;
  void count_small(PoolCache& cache, std::atomic<std::uint64_t>& calls, std::int64_t bytes) noexcept;
  void publish(std::int64_t bytes) noexcept;
  void raise_peak() noexcept;
  static FreeBlock** choose(Bin& bin);
  void* allocate_large(std::size_t bytes);
  void deallocate_large(void* block, std::size_t bytes) noexcept;
  bool exceeds_limit(std::size_t size) const;
  void* find(std::size_t size, Ranges* pool);
  void* cut(Ranges& from, std::size_t size);
  std::size_t uncut(Ranges& from, void* block) noexcept;
  void give_back(void* block, std::size_t size) noexcept;
  void release_ranges(Ranges& from) noexcept;
  void release_ranges(Pool& pool) noexcept;
  void* from_system(std::size_t bytes);
  void to_system(void* block, std::size_t bytes) noexcept;
  void trim(std::size_t most_cached) noexcept;
  [[noreturn]] void fail_out_of_memory(std::size_t bytes);

  std::atomic<std::int64_t> in_use_{0};  // what threads have published, and all large blocks
  std::atomic<std::int64_t> peak_in_use_{0};

  mutable std::mutex mutex_;  // everything below
  Bin bins_[kBins];
  std::uint64_t tick_ = 0;
  Ranges ranges_{Fit::best};  // that blocks below 2 MiB are cut from
  std::vector<std::unique_ptr<Pool>> pools_;
  std::size_t uncut_ = 0;  // bytes of all ranges that are no block's
  std::size_t cached_ = 0;
  std::size_t reserved_ = 0;  // without the pool's slabs
  std::size_t peak_reserved_ = 0;
  std::size_t limit_ = 0;
  std::size_t most_cached_ = 0;
  std::uint64_t requests_ = 0, releases_ = 0, allocations_ = 0, frees_ = 0;
};

/// The default allocator. Made at the first use, never destroyed.
CpuAllocator& default_cpu_allocator();

/// The number of scopes of memory pools on the CPU, of all threads.
extern std::atomic<int> g_cpu_pool_guards;
/// The calling thread's memory pool as the CPU's allocators are told of it, when a block is taken and when it returns: as a
/// stream.
Stream cpu_pool_stream() noexcept;

}  // namespace ct::detail
