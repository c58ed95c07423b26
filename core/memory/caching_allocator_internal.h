#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cotangent/core/memory/allocator.h>
#include <cotangent/core/memory/block_heap_internal.h>

// The caching allocator behind GPUs and page-locked host memory. Internal; the design note is on top of
// caching_allocator.cpp.

namespace ct::detail {

/// Where a caching allocator gets its segments from, and how it learns that queued work is done. An
/// interface so that the allocator can be tested on a machine without a GPU.
class CT_API MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Null when there is no such block left.
  virtual void* reserve(std::size_t bytes) = 0;
  virtual void release(void* memory, std::size_t bytes) noexcept = 0;
  /// A mark behind the work queued on `stream` so far.
  virtual void* mark(const Stream& stream) = 0;
  virtual bool reached(void* mark) = 0;
  virtual void wait(void* mark) = 0;
  virtual void forget(void* mark) noexcept = 0;
  /// Free and total bytes; false when they can't be told.
  virtual bool capacity(std::size_t* free, std::size_t* total) noexcept = 0;
};

class CT_API CachingAllocator : public Allocator {
 public:
  /// `name` appears in messages: "cuda:0". `pool_slot` is the index of the thread's memory pool setting
  /// that this allocator follows, or -1.
  CachingAllocator(MemorySource& source, std::string name, int pool_slot);
  /// Gives back every segment. The default allocators are never destroyed; those of tests are.
  ~CachingAllocator() override;

  void* allocate(std::size_t bytes, const Stream& stream) override;
  void deallocate(void* block, std::size_t bytes, const Stream& stream) noexcept override;
  void record_stream(void* block, std::size_t bytes, const Stream& user) override;
  void empty_cache() override;
  MemoryStats stats() const override;
  void reset_peak() override;
  void set_limit(std::size_t bytes) override;
  void release_pool(MemoryPoolId pool) noexcept;
  std::size_t pool_bytes(MemoryPoolId pool) const;
  /// Whether a block lies at `address` that was not given back.
  bool uses(const void* address) const;

 private:
  // The memory of one stream and pool.
  struct StreamHeaps {
    StreamHeaps(void* stream, MemoryPoolId pool);
    void* stream;
    MemoryPoolId pool;
    bool released = false;  // its pool is gone: free segments go back to the system
    BlockHeap small, large;
  };
  // A block that waits for other streams.
  struct Pending {
    Block* block;
    std::vector<void*> marks;
  };

  StreamHeaps& heaps_of(const Stream& stream, MemoryPoolId pool);
  Block* take(StreamHeaps& heaps, std::size_t bytes);
  Block* grow_and_take(StreamHeaps& heaps, std::size_t bytes);
  bool add_segment(BlockHeap& heap, std::size_t bytes);
  void settle_pending(bool wait);
  void free_segments(StreamHeaps& heaps) noexcept;
  std::size_t free_cache() noexcept;
  [[noreturn]] void fail_out_of_memory(std::size_t bytes);

  MemorySource& source_;
  const std::string name_;
  const int pool_slot_;
  mutable std::mutex mutex_;  // everything below
  std::vector<std::unique_ptr<StreamHeaps>> heaps_;
  BlockMap blocks_;
  std::deque<Pending> pending_;
  MemoryStats stats_;
  std::size_t limit_ = 0;
};

/// The memory pool that the calling thread allocates from (0: the common memory): slot 0 for the CPU, 1 + i for GPU i.
MemoryPoolId& thread_memory_pool(int slot) noexcept;

/// The default allocators. Made at the first use, never destroyed.
CachingAllocator& cuda_caching_allocator(Device device);
CachingAllocator& pinned_caching_allocator();

}  // namespace ct::detail
