#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include <cotangent/core/base/export.h>

// A pool of small host blocks: tensor handles, tape nodes, and the small tensors of the CPU allocator.
//
// Size classes are multiples of 64 bytes up to 512, then four per doubling up to 32 KiB; every block is
// aligned to 64 bytes. Each thread keeps a free list per class, linked through the blocks themselves, so
// that taking and giving back a block is a pop and a push without locks or atomic read-modify-writes. An
// empty list is refilled, and a long one is trimmed, in batches from a central store under a lock; a
// block may be given back on any thread. When a thread ends its lists go to the central store. The store
// is never destroyed, so static and thread-local objects may outlive everything else.
//
// In a library built with AddressSanitizer each block comes from operator new, so that misuse is found: no thread has
// lists there. The library alone decides; what is inline here is the same in every program, with whatever flags it is
// compiled, and blocks pass freely between them.

namespace ct::detail {

inline constexpr std::size_t kPoolMaxBytes = 32768;
inline constexpr int kPoolClasses = 32;
inline constexpr std::size_t kPoolAlign = 64;

/// The class of a block of `bytes` in [1, kPoolMaxBytes].
constexpr int pool_class(std::size_t bytes) {
  if (bytes <= 512) return static_cast<int>((bytes - 1) >> 6);
  const int log =
      static_cast<int>(std::bit_width(bytes - 1)) - 1;  // 2^log < bytes <= 2^(log+1), log in [9, 14]
  const int quarter = static_cast<int>((bytes - 1) >> (log - 2)) & 3;
  return 8 + (log - 9) * 4 + quarter;
}
/// The size in bytes of the blocks of a class.
constexpr std::size_t pool_class_bytes(int index) {
  if (index < 8) return static_cast<std::size_t>(index + 1) << 6;
  const int log = 9 + (index - 8) / 4;
  return (static_cast<std::size_t>(5 + (index - 8) % 4)) << (log - 2);
}

struct PoolBlock {
  PoolBlock* next;
};

/// One thread's free lists. Only the owner writes; the counters are atomic (plain moves on the usual
/// machines) because memory_stats() reads them from other threads.
struct PoolCache {
  struct List {
    PoolBlock* head = nullptr;
    std::atomic<std::uint32_t> count{0};
    std::uint32_t limit = 0;  // at this count a batch goes back to the central store
  };
  List lists[kPoolClasses];
  // The CPU allocator's share, see core/memory/cpu_allocator.cpp.
  std::atomic<std::int64_t> unpublished_bytes{0};
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> releases{0};
  PoolCache* next = nullptr;  // the registry of live caches
  PoolCache* previous = nullptr;
};

// Null until the thread's first slow path, and again once its thread-local objects are destroyed. In a program the
// linker makes the access one load; in a shared library it is a call. (The initial-exec model saves the call, but then
// all of a library's thread-local memory must fit into what a running program has left when it loads the library, and
// that of the CUDA runtime does not.)
CT_API extern __thread PoolCache* t_pool_cache;

CT_API void* pool_refill(int index, std::size_t bytes);  // throws std::bad_alloc
CT_API void pool_spill(void* block, int index) noexcept;

/// A block of class `index`, of which `bytes` will be used.
inline void* pool_take(int index, std::size_t bytes) {
  if (PoolCache* cache = t_pool_cache) [[likely]] {
    PoolCache::List& list = cache->lists[index];
    if (PoolBlock* block = list.head) [[likely]] {
      list.head = block->next;
      list.count.store(list.count.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
      return block;
    }
  }
  return pool_refill(index, bytes);
}

inline void pool_give(void* memory, int index) noexcept {
  if (PoolCache* cache = t_pool_cache) [[likely]] {
    PoolCache::List& list = cache->lists[index];
    const std::uint32_t count = list.count.load(std::memory_order_relaxed);
    if (count < list.limit) [[likely]] {
      PoolBlock* block = static_cast<PoolBlock*>(memory);
      block->next = list.head;
      list.head = block;
      list.count.store(count + 1, std::memory_order_relaxed);
      return;
    }
  }
  pool_spill(memory, index);
}

}  // namespace ct::detail

namespace ct {

/// A block of `bytes`, aligned to 64 bytes, from the calling thread's free list. Throws std::bad_alloc.
/// When `bytes` is a constant, the size class is computed by the compiler.
inline void* pool_allocate(std::size_t bytes) {
  if (bytes - 1 < detail::kPoolMaxBytes) [[likely]]
    return detail::pool_take(detail::pool_class(bytes), bytes);
  return ::operator new (bytes, std::align_val_t{detail::kPoolAlign});
}

/// Gives back a block of pool_allocate(bytes), on any thread.
inline void pool_deallocate(void* block, std::size_t bytes) noexcept {
  if (bytes - 1 < detail::kPoolMaxBytes) [[likely]] {
    detail::pool_give(block, detail::pool_class(bytes));
    return;
  }
  ::operator delete (block, std::align_val_t{detail::kPoolAlign});
}

/// The same with the size as a template argument.
template <std::size_t Size>
void* pool_allocate() {
  return pool_allocate(Size);
}
template <std::size_t Size>
void pool_deallocate(void* block) noexcept {
  pool_deallocate(block, Size);
}

/// Derive from Pooled to have new and delete use the pool. A class hierarchy needs a virtual destructor,
/// so that delete learns the size of the whole object.
struct Pooled {
  static void* operator new(std::size_t bytes) { return pool_allocate(bytes); }
  static void* operator new(std::size_t, void* place) noexcept { return place; }
  static void operator delete(void* object, std::size_t bytes) noexcept { pool_deallocate(object, bytes); }
  static void operator delete(void*, void*) noexcept {}
};

/// A standard allocator over the pool, for containers with short lives.
template <class T>
struct PoolAllocator {
  using value_type = T;
  PoolAllocator() = default;
  template <class U>
  PoolAllocator(const PoolAllocator<U>&) noexcept {}
  T* allocate(std::size_t n) { return static_cast<T*>(pool_allocate(n * sizeof(T))); }
  void deallocate(T* p, std::size_t n) noexcept { pool_deallocate(p, n * sizeof(T)); }
  template <class U>
  friend bool operator==(const PoolAllocator&, const PoolAllocator<U>&) {
    return true;
  }
};

}  // namespace ct
