#include <cotangent/core/memory/cpu_allocator_internal.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include <cotangent/core/memory/memory_text_internal.h>
#include <cotangent/core/memory/pool_store_internal.h>

// Design.
//
// Small blocks, up to 32 KiB, come from the thread-cached pool of core/memory/pool.h: no lock, no atomic
// read-modify-write. Bytes in use are counted per thread and published to the shared count whenever a
// thread's own count has moved by 64 KiB, which bounds the error of the peak. Slabs stay with the pool.
//
// Large blocks come from bins, eight per doubling, under one lock; a block is at most 1/8 larger than
// asked. Freed blocks stay in their bin, so that a training step finds the blocks of the step before,
// already backed by pages; a thread takes one that it has freed itself if there is one, whose lines are in its own
// caches and not in another core's. Once more than a quarter of the machine's memory is cached, blocks of the bins
// that have not been used for longest go back to the system.
//
// From 2 MiB on a block is mapped by itself, aligned to 2 MiB, with huge pages asked for: fewer page
// faults and TLB misses. Smaller ones are cut from ranges of 2 MiB that are mapped alike; a range goes back once all of
// it is free. When the system has nothing left, the cache is freed and the request tried again.
//
// Under AddressSanitizer every block that is no pool's goes to the system at once, so that misuse is found.

namespace ct::detail {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Mapped behind each block and never touched: QEMU 7.2, which emulates other processors for tests, loads all lanes of a vector
// where a processor loads those of a mask.
constexpr std::size_t kBehind = 64 << 10;
constexpr std::int64_t kPublishBytes = 64 << 10;

thread_local char t_here;  // its address tells threads apart

constexpr int kFirstLog = std::bit_width(kPoolMaxBytes) - 1;

int bin_of(std::size_t bytes) {  // bytes > kPoolMaxBytes
  const int log = static_cast<int>(std::bit_width(bytes - 1)) - 1;
  return (log - kFirstLog) * 8 + (static_cast<int>((bytes - 1) >> (log - 3)) & 7);
}
std::size_t bin_bytes(int bin) {
  const int log = kFirstLog + bin / 8;
  return static_cast<std::size_t>(9 + bin % 8) << (log - 3);
}

// Size of the block that `bytes` takes.
std::size_t block_bytes(std::size_t bytes) {
  if (CT_POOL_BYPASS) return bytes;
  return bytes <= kPoolMaxBytes ? pool_class_bytes(pool_class(bytes)) : bin_bytes(bin_of(bytes));
}

std::size_t physical_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : 0;
}

// Maps a little more than needed and unmaps what lies outside the aligned part.
void* map_aligned(std::size_t bytes) {
  const std::size_t span = bytes + kBehind + kHugePage;
  void* raw = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  char* from = static_cast<char*>(raw);
  char* block = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(from) + kHugePage - 1) &
                                        ~static_cast<std::uintptr_t>(kHugePage - 1));
  if (block > from) munmap(from, static_cast<std::size_t>(block - from));
  char* end = block + bytes + kBehind;
  if (end < from + span) munmap(end, static_cast<std::size_t>(from + span - end));
  madvise(block, bytes, MADV_HUGEPAGE);  // only advice: without huge pages everything works, a bit slower
  return block;
}

MemoryPoolId pool_of(const Stream& stream) {
  return static_cast<MemoryPoolId>(reinterpret_cast<std::uintptr_t>(stream.native));
}

}  // namespace

CpuAllocator& default_cpu_allocator() {
  static CpuAllocator& allocator = *new CpuAllocator;
  return allocator;
}

CpuAllocator::CpuAllocator() {
  most_cached_ = physical_memory() / 4;
  if (most_cached_ < (std::size_t{64} << 20)) most_cached_ = std::size_t{64} << 20;
}

inline void CpuAllocator::count_small(PoolCache& cache, std::atomic<std::uint64_t>& calls,
                                      std::int64_t bytes) noexcept {
  constexpr auto relaxed = std::memory_order_relaxed;
  calls.store(calls.load(relaxed) + 1, relaxed);
  const std::int64_t moved = cache.unpublished_bytes.load(relaxed) + bytes;
  if (moved < kPublishBytes && moved > -kPublishBytes) [[likely]] {
    cache.unpublished_bytes.store(moved, relaxed);
    return;
  }
  cache.unpublished_bytes.store(0, relaxed);
  publish(moved);
}

void* CpuAllocator::allocate(std::size_t bytes, const Stream& stream) {
  if (bytes - 1 < kPoolMaxBytes && !stream.native) [[likely]] {
    const int index = pool_class(bytes);
    PoolCache* const cache = t_pool_cache;
    if (cache && cache->lists[index].head) [[likely]] {
      void* const block = pool_take(index, bytes);
      count_small(*cache, cache->requests, static_cast<std::int64_t>(pool_class_bytes(index)));
      return block;
    }
  }
  return allocate_slowly(bytes, stream);
}

void* CpuAllocator::allocate_slowly(std::size_t bytes, const Stream& stream) {
  if (bytes == 0) return nullptr;
  if (stream.native) return allocate_in(pool_of(stream), bytes);
  if (CT_POOL_BYPASS || bytes > kPoolMaxBytes) return allocate_large(bytes);
  const int index = pool_class(bytes);
  void* block;
  try {
    block = pool_take(index, bytes);
  } catch (const std::bad_alloc&) {
    empty_cache();
    try {
      block = pool_take(index, bytes);
    } catch (const std::bad_alloc&) { fail_out_of_memory(bytes); }
  }
  count_small(static_cast<std::int64_t>(pool_class_bytes(index)));
  return block;
}

void CpuAllocator::deallocate(void* block, std::size_t bytes, const Stream& stream) noexcept {
  if (bytes - 1 < kPoolMaxBytes && block && !stream.native) [[likely]] {
    const int index = pool_class(bytes);
    PoolCache* const cache = t_pool_cache;
    if (cache && cache->lists[index].count.load(std::memory_order_relaxed) < cache->lists[index].limit)
        [[likely]] {
      pool_give(block, index);
      return count_small(*cache, cache->releases, -static_cast<std::int64_t>(pool_class_bytes(index)));
    }
  }
  deallocate_slowly(block, bytes, stream);
}

void CpuAllocator::deallocate_slowly(void* block, std::size_t bytes, const Stream& stream) noexcept {
  if (!block) return;
  if (stream.native) return deallocate_in(pool_of(stream), block);
  if (CT_POOL_BYPASS || bytes > kPoolMaxBytes) {
    deallocate_large(block, bytes);
    return;
  }
  const int index = pool_class(bytes);
  pool_give(block, index);
  count_small(-static_cast<std::int64_t>(pool_class_bytes(index)));
}

void CpuAllocator::count_small(std::int64_t bytes) noexcept {
  PoolCache* cache = t_pool_cache;
  if (!cache) [[unlikely]] {  // a thread that is ending
    publish(bytes);
    std::lock_guard lock(mutex_);
    ++(bytes > 0 ? requests_ : releases_);
    return;
  }
  count_small(*cache, bytes > 0 ? cache->requests : cache->releases, bytes);
}

void CpuAllocator::publish(std::int64_t bytes) noexcept {
  in_use_.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes > 0) raise_peak();
}

void CpuAllocator::raise_peak() noexcept {
  const std::int64_t now = in_use_.load(std::memory_order_relaxed);
  std::int64_t peak = peak_in_use_.load(std::memory_order_relaxed);
  while (now > peak && !peak_in_use_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {}
}

// Needs the lock. Where the bin's block for this thread is linked; null if it has none.
CpuAllocator::FreeBlock** CpuAllocator::choose(Bin& bin) {
  constexpr int kMostLooks = 16;
  FreeBlock** place = &bin.head;
  for (int look = 0; *place && look < kMostLooks; ++look, place = &(*place)->next)
    if ((*place)->thread == &t_here) return place;
  return bin.head ? &bin.head : nullptr;
}

void* CpuAllocator::allocate_large(std::size_t bytes) {
  if (bytes > kLargestRequest) fail_out_of_memory(bytes);
  const std::size_t size = block_bytes(bytes);
  void* block = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!CT_POOL_BYPASS) {
      Bin& bin = bins_[bin_of(bytes)];
      bin.last_use = ++tick_;
      if (FreeBlock** place = choose(bin)) {
        block = *place;
        *place = (*place)->next;
        cached_ -= size;
      }
    }
    if (!block) block = find(size, nullptr);
    if (block) ++requests_;
  }
  if (!block) fail_out_of_memory(bytes);
  publish(static_cast<std::int64_t>(size));
  return block;
}

void CpuAllocator::deallocate_large(void* block, std::size_t bytes) noexcept {
  const std::size_t size = block_bytes(bytes);
  publish(-static_cast<std::int64_t>(size));
  std::lock_guard lock(mutex_);
  ++releases_;
  if (CT_POOL_BYPASS || size > most_cached_ || exceeds_limit(0)) {
    give_back(block, size);
    release_ranges(ranges_);
    return;
  }
  if (cached_ + size > most_cached_) trim(most_cached_ - size);
  Bin& bin = bins_[bin_of(bytes)];
  bin.last_use = ++tick_;
  FreeBlock* free = static_cast<FreeBlock*>(block);
  free->next = bin.head;
  free->thread = &t_here;
  bin.head = free;
  cached_ += size;
}

// Needs the lock. Whether `size` more bytes would be above the limit; the pool of small blocks counts.
bool CpuAllocator::exceeds_limit(std::size_t size) const {
  if (limit_ == 0) return false;
  const std::size_t held = reserved_ + PoolStore::get().usage().reserved;
  return size > limit_ || held > limit_ - size;
}

// Needs the lock. Null when neither the system nor the cache can help.
void* CpuAllocator::find(std::size_t size, Ranges* pool) {
  Ranges* const ranges = pool ? pool : !CT_POOL_BYPASS && size < kHugePage ? &ranges_ : nullptr;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (attempt == 1) trim(0);
    if (void* block = ranges ? cut(*ranges, size) : from_system(size)) return block;
  }
  return nullptr;
}

// Needs the lock. Part of a range, of a new one if need be: of one that is no larger where the limit leaves no room.
void* CpuAllocator::cut(Ranges& from, std::size_t size) {
  Block* block = nullptr;
  void* range = nullptr;
  std::size_t bytes = (size + kHugePage - 1) / kHugePage * kHugePage;
  if (exceeds_limit(bytes)) bytes = size;
  try {
    block = from.heap.take(size);
    if (!block) {
      range = from_system(bytes);
      if (!range) return nullptr;
      from.heap.add_segment(range, bytes);
      uncut_ += bytes;
      range = nullptr;
      block = from.heap.take(size);
    }
    from.cuts.insert(block);
  } catch (const std::bad_alloc&) {  // for the books themselves
    if (range) to_system(range, bytes);
    if (block) from.heap.give(block);
    return nullptr;
  }
  uncut_ -= size;
  return block->address;
}

// Needs the lock. The bytes of the block, which is free from now on.
std::size_t CpuAllocator::uncut(Ranges& from, void* address) noexcept {
  Block* const block = from.cuts.erase(address);
  const std::size_t size = block->bytes;
  from.heap.give(block);
  uncut_ += size;
  return size;
}

// Needs the lock. A block that find() found for no pool.
void CpuAllocator::give_back(void* block, std::size_t size) noexcept {
  if (CT_POOL_BYPASS || size >= kHugePage) return to_system(block, size);
  uncut(ranges_, block);
}

// Needs the lock. Gives the system the ranges that are entirely free.
void CpuAllocator::release_ranges(Ranges& from) noexcept {
  from.heap.remove_free_segments([this](void* range, std::size_t bytes) {
    to_system(range, bytes);
    uncut_ -= bytes;
  });
}

// Needs the lock.
void* CpuAllocator::from_system(std::size_t size) {
  if (exceeds_limit(size)) return nullptr;
  void* block = CT_POOL_BYPASS
                    ? std::aligned_alloc(kPoolAlign, (size + kPoolAlign - 1) / kPoolAlign * kPoolAlign)
                    : map_aligned(size);
  if (!block) return nullptr;
  ++allocations_;
  reserved_ += size;
  if (reserved_ > peak_reserved_) peak_reserved_ = reserved_;
  return block;
}

void CpuAllocator::to_system(void* block, std::size_t size) noexcept {
  if (CT_POOL_BYPASS)
    std::free(block);
  else
    munmap(block, size + kBehind);
  ++frees_;
  reserved_ -= size;
}

// Needs the lock. Frees blocks, those of the longest unused bins first, until at most `most_cached` bytes
// are cached.
void CpuAllocator::trim(std::size_t most_cached) noexcept {
  while (cached_ > most_cached) {
    int oldest = -1;
    for (int i = 0; i < kBins; ++i)
      if (bins_[i].head && (oldest < 0 || bins_[i].last_use < bins_[oldest].last_use)) oldest = i;
    if (oldest < 0) break;
    const std::size_t size = bin_bytes(oldest);
    while (bins_[oldest].head && cached_ > most_cached) {
      FreeBlock* block = bins_[oldest].head;
      bins_[oldest].head = block->next;
      cached_ -= size;
      give_back(block, size);
    }
  }
  release_ranges(ranges_);
}

void CpuAllocator::empty_cache() {
  std::lock_guard lock(mutex_);
  trim(0);
}

MemoryStats CpuAllocator::stats() const {
  const PoolUsage pool = PoolStore::get().usage();
  std::lock_guard lock(mutex_);
  MemoryStats stats;
  const std::int64_t in_use = in_use_.load(std::memory_order_relaxed) + pool.unpublished;
  stats.in_use = in_use > 0 ? static_cast<std::size_t>(in_use) : 0;
  stats.cached = cached_ + uncut_ + pool.free;
  stats.reserved = reserved_ + pool.reserved;
  // Threads publish their part now and then: what is known may be less than nothing for a while.
  const std::int64_t peak = peak_in_use_.load(std::memory_order_relaxed);
  stats.peak_in_use = std::max(stats.in_use, peak > 0 ? static_cast<std::size_t>(peak) : 0);
  stats.peak_reserved = peak_reserved_ + pool.reserved;
  stats.requests = requests_ + pool.requests;
  stats.releases = releases_ + pool.releases;
  stats.allocations = allocations_ + pool.slabs;
  stats.frees = frees_;
  return stats;
}

void CpuAllocator::reset_peak() {
  in_use_.fetch_add(PoolStore::get().take_retired_bytes(), std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  peak_reserved_ = reserved_;
  peak_in_use_.store(in_use_.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void CpuAllocator::set_limit(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
  const std::size_t held = reserved_ + PoolStore::get().usage().reserved;
  if (bytes == 0 || held <= bytes) return;
  const std::size_t excess = held - bytes;
  trim(cached_ > excess ? cached_ - excess : 0);
}

void CpuAllocator::fail_out_of_memory(std::size_t bytes) {
  const MemoryStats now = stats();
  std::size_t limit;
  {
    std::lock_guard lock(mutex_);
    limit = limit_;
  }
  fail<OutOfMemoryError>(
      "allocator", "out of memory on cpu: requested ", format_bytes(bytes), "; in use ",
      format_bytes(now.in_use), ", cached ", format_bytes(now.cached),
      limit ? ", limit " + format_bytes(limit) : std::string(), ", memory of the machine ",
      format_bytes(physical_memory()),
      "; reduce the batch size, let go of tensors that are no longer needed, or train under "
      "no_grad/recompute where gradients are not needed");
}

}  // namespace ct::detail
