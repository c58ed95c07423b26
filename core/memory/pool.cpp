#include <cotangent/core/memory/pool.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <cotangent/core/base/per_thread.h>
#include <cotangent/core/memory/pool_store_internal.h>

namespace ct::detail {

__thread PoolCache* t_pool_cache = nullptr;

namespace {

constexpr std::size_t kSlabBytes = std::size_t{1} << 20;

// A batch is about 32 KiB of blocks, at least 2 and at most 64: large enough to make the lock rare, small
// enough that a thread does not sit on memory that others could use.
constexpr std::uint32_t batch_size(int index) {
  return static_cast<std::uint32_t>(
      std::clamp<std::size_t>(kPoolMaxBytes / pool_class_bytes(index), std::size_t{2}, std::size_t{64}));
}
constexpr std::uint32_t list_limit(int index) { return 4 * batch_size(index); }

// True once the calling thread's cache is gone: what its last destructors give back goes to the store.
__thread bool t_cache_retired = false;

void end_cache(void*) {
  t_cache_retired = true;
  PoolStore::get().retire(std::exchange(t_pool_cache, nullptr));
}

PoolCache* start_cache() noexcept {
  if (t_cache_retired) return nullptr;
  if (t_pool_cache) return t_pool_cache;
  PoolCache* cache = new (std::nothrow) PoolCache;
  if (!cache) return nullptr;
  for (int i = 0; i < kPoolClasses; ++i) cache->lists[i].limit = list_limit(i);
  PoolStore::get().enlist(cache);
  t_pool_cache = cache;
  at_thread_end(end_cache, nullptr);
  return cache;
}

}  // namespace

PoolStore& PoolStore::get() {
  static PoolStore& store = *new PoolStore;  // never destroyed, see pool.h
  return store;
}

void PoolStore::enlist(PoolCache* cache) noexcept {
  std::lock_guard lock(mutex_);
  cache->next = caches_;
  if (caches_) caches_->previous = cache;
  caches_ = cache;
}

void PoolStore::retire(PoolCache* cache) noexcept {
  for (int i = 0; i < kPoolClasses; ++i) {
    PoolCache::List& list = cache->lists[i];
    if (list.head) put(i, list.head, list.count.load(std::memory_order_relaxed));
  }
  {
    std::lock_guard lock(mutex_);
    retired_bytes_ += cache->unpublished_bytes.load(std::memory_order_relaxed);
    retired_requests_ += cache->requests.load(std::memory_order_relaxed);
    retired_releases_ += cache->releases.load(std::memory_order_relaxed);
    if (cache->previous) cache->previous->next = cache->next;
    if (cache->next) cache->next->previous = cache->previous;
    if (caches_ == cache) caches_ = cache->next;
  }
  delete cache;
}

void PoolStore::put(int index, PoolBlock* blocks, std::uint32_t count) noexcept {
  Batch* batch = reinterpret_cast<Batch*>(blocks);
  batch->count = count;
  std::lock_guard lock(mutex_);
  batch->next_batch = batches_[index];
  batches_[index] = batch;
  free_bytes_ += count * pool_class_bytes(index);
}

PoolBlock* PoolStore::take(int index, std::uint32_t* count) {
  const std::size_t size = pool_class_bytes(index);
  char* from;
  {
    std::lock_guard lock(mutex_);
    if (Batch* batch = batches_[index]) {
      batches_[index] = batch->next_batch;
      *count = batch->count;
      free_bytes_ -= batch->count * size;
      return reinterpret_cast<PoolBlock*>(batch);
    }
    if (static_cast<std::size_t>(slab_end_ - slab_next_) < size) {
      // The rest of the old slab, less than one block, is left unused: at most 3%.
      char* slab = static_cast<char*>(std::aligned_alloc(kPoolAlign, kSlabBytes));
      if (!slab) throw std::bad_alloc();
      slab_next_ = slab;
      slab_end_ = slab + kSlabBytes;
      ++slabs_;
    }
    *count = static_cast<std::uint32_t>(
        std::min<std::size_t>(batch_size(index), static_cast<std::size_t>(slab_end_ - slab_next_) / size));
    from = slab_next_;
    slab_next_ += *count * size;
  }
  // Fresh blocks are linked in address order, so that consecutive takes walk upwards in memory.
  PoolBlock* next = nullptr;
  for (std::uint32_t i = *count; i-- > 0;) {
    PoolBlock* block = reinterpret_cast<PoolBlock*>(from + i * size);
    block->next = next;
    next = block;
  }
  return next;
}

PoolUsage PoolStore::usage() noexcept {
  std::lock_guard lock(mutex_);
  PoolUsage usage;
  usage.reserved = slabs_ * kSlabBytes;
  usage.slabs = slabs_;
  usage.free = free_bytes_ + static_cast<std::size_t>(slab_end_ - slab_next_);
  usage.unpublished = retired_bytes_;
  usage.requests = retired_requests_;
  usage.releases = retired_releases_;
  for (PoolCache* cache = caches_; cache; cache = cache->next) {
    for (int i = 0; i < kPoolClasses; ++i)
      usage.free += cache->lists[i].count.load(std::memory_order_relaxed) * pool_class_bytes(i);
    usage.unpublished += cache->unpublished_bytes.load(std::memory_order_relaxed);
    usage.requests += cache->requests.load(std::memory_order_relaxed);
    usage.releases += cache->releases.load(std::memory_order_relaxed);
  }
  return usage;
}

std::int64_t PoolStore::take_retired_bytes() noexcept {
  const std::lock_guard lock(mutex_);
  return std::exchange(retired_bytes_, 0);
}

void* pool_refill(int index, std::size_t bytes) {
  if (CT_POOL_BYPASS) return ::operator new (bytes, std::align_val_t{kPoolAlign});
  std::uint32_t count = 0;
  PoolBlock* block = PoolStore::get().take(index, &count);
  PoolBlock* rest = block->next;
  PoolCache* cache = start_cache();
  if (count > 1) {
    if (cache) {
      // The list is empty, or there was no cache: either way the rest becomes the list.
      cache->lists[index].head = rest;
      cache->lists[index].count.store(count - 1, std::memory_order_relaxed);
    } else {
      PoolStore::get().put(index, rest, count - 1);
    }
  }
  return block;
}

void pool_spill(void* memory, int index) noexcept {
  if (CT_POOL_BYPASS) return ::operator delete (memory, std::align_val_t{kPoolAlign});
  PoolBlock* block = static_cast<PoolBlock*>(memory);
  PoolCache* cache = start_cache();
  if (!cache) {
    block->next = nullptr;
    PoolStore::get().put(index, block, 1);
    return;
  }
  PoolCache::List& list = cache->lists[index];
  std::uint32_t count = list.count.load(std::memory_order_relaxed);
  if (count >=
      list.limit) {  // cut a batch off the front, where the blocks are still in the processor's cache
    const std::uint32_t n = batch_size(index);
    PoolBlock* first = list.head;
    PoolBlock* last = first;
    for (std::uint32_t i = 1; i < n; ++i) last = last->next;
    list.head = last->next;
    last->next = nullptr;
    count -= n;
    PoolStore::get().put(index, first, n);
  }
  block->next = list.head;
  list.head = block;
  list.count.store(count + 1, std::memory_order_relaxed);
}

}  // namespace ct::detail
