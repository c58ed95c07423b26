#include <cotangent/core/memory/caching_allocator_internal.h>
#include <cotangent/core/memory/cpu_allocator_internal.h>

// Memory pools of the CPU. A pool's blocks are cut from ranges of its own, whatever their size, first fit, so that a step that is
// repeated finds the same addresses. Storages name their pool in the place of the stream, which the CPU does not have: a
// block finds back on any thread without a look at its address, and who uses no pool pays one comparison when a block is taken
// and one when it returns. Free ranges stay until the pool is released.

namespace ct::detail {

constinit std::atomic<int> g_cpu_pool_guards{0};

Stream cpu_pool_stream() noexcept {
  return {.native = reinterpret_cast<void*>(static_cast<std::uintptr_t>(thread_memory_pool(0))),
          .device = cpu};
}

void CpuAllocator::make_pool(MemoryPoolId id) {
  const std::lock_guard lock(mutex_);
  pools_.push_back(std::make_unique<Pool>(id));
}

// Needs the lock.
CpuAllocator::Pool* CpuAllocator::find_pool(MemoryPoolId id) const noexcept {
  for (const auto& pool : pools_)
    if (pool->id == id) return pool.get();
  return nullptr;
}

void* CpuAllocator::allocate_in(MemoryPoolId id, std::size_t bytes) {
  if (bytes > kLargestRequest) fail_out_of_memory(bytes);
  const std::size_t size = ranges_.heap.rounded(bytes);
  void* block;
  {
    const std::lock_guard lock(mutex_);
    Pool* pool = find_pool(id);
    if (!pool) {  // released while a scope of it goes on
      pool = pools_.emplace_back(std::make_unique<Pool>(id)).get();
      pool->released = true;
    }
    block = find(size, pool);
    if (block) ++requests_;
  }
  if (!block) fail_out_of_memory(bytes);
  publish(static_cast<std::int64_t>(size));
  return block;
}

void CpuAllocator::deallocate_in(MemoryPoolId id, void* block) noexcept {
  const std::lock_guard lock(mutex_);
  Pool& pool = *find_pool(id);
  publish(-static_cast<std::int64_t>(uncut(pool, block)));
  ++releases_;
  if (pool.released) release_ranges(pool);
}

void CpuAllocator::release_pool(MemoryPoolId id) noexcept {
  const std::lock_guard lock(mutex_);
  Pool* const pool = find_pool(id);
  if (!pool) return;
  pool->released = true;
  release_ranges(*pool);
}

// Needs the lock. The pool is gone with its last range.
void CpuAllocator::release_ranges(Pool& pool) noexcept {
  release_ranges(static_cast<Ranges&>(pool));
  if (pool.heap.segment_bytes() == 0)
    std::erase_if(pools_, [&](const auto& other) { return other.get() == &pool; });
}

bool CpuAllocator::uses(MemoryPoolId id, const void* address) const noexcept {
  const std::lock_guard lock(mutex_);
  const Pool* const pool = find_pool(id);
  return pool && pool->cuts.find(address);
}

std::size_t CpuAllocator::pool_bytes(MemoryPoolId id) const {
  const std::lock_guard lock(mutex_);
  const Pool* const pool = find_pool(id);
  return pool ? pool->heap.segment_bytes() : 0;
}

}  // namespace ct::detail
