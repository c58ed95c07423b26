#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include <cotangent/core/memory/pool.h>

// The central store behind the per-thread lists of core/memory/pool.h. Internal.

// Whether this build gives every block out of operator new; known to the library and its tests.
#if defined(__SANITIZE_ADDRESS__)
#define CT_POOL_BYPASS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CT_POOL_BYPASS 1
#endif
#endif
#ifndef CT_POOL_BYPASS
#define CT_POOL_BYPASS 0
#endif

namespace ct::detail {

struct PoolUsage {
  std::size_t reserved = 0;      // bytes of slabs
  std::size_t free = 0;          // unused bytes of them
  std::uint64_t slabs = 0;       // slabs asked from the system; they are kept for the process's life
  std::int64_t unpublished = 0;  // the CPU allocator's bytes that threads have not yet published
  std::uint64_t requests = 0;    // its calls
  std::uint64_t releases = 0;
};

class PoolStore {
 public:
  static PoolStore& get();

  void enlist(PoolCache* cache) noexcept;
  void retire(PoolCache* cache) noexcept;
  // Takes `count` linked blocks.
  void put(int index, PoolBlock* blocks, std::uint32_t count) noexcept;
  // One or more linked blocks; throws std::bad_alloc.
  PoolBlock* take(int index, std::uint32_t* count);
  PoolUsage usage() noexcept;
  // Bytes that ended threads had not published; who asks publishes them, and usage() no longer counts them.
  std::int64_t take_retired_bytes() noexcept;

 private:
  // The first block of a batch holds what the store must know, so that a batch moves in constant time.
  struct Batch {
    PoolBlock* next;
    Batch* next_batch;
    std::uint32_t count;
  };

  std::mutex mutex_;
  Batch* batches_[kPoolClasses] = {};
  char* slab_next_ = nullptr;
  char* slab_end_ = nullptr;
  std::uint64_t slabs_ = 0;
  std::size_t free_bytes_ = 0;
  PoolCache* caches_ = nullptr;
  std::int64_t retired_bytes_ = 0;
  std::uint64_t retired_requests_ = 0;
  std::uint64_t retired_releases_ = 0;
};

}  // namespace ct::detail
