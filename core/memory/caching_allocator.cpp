#include <cotangent/core/memory/caching_allocator_internal.h>

#include <utility>

#include <cotangent/core/memory/memory_text_internal.h>

// Design.
//
// The system's own allocation is slow (0.1 to 1 ms) and freeing waits for the whole device. So memory is
// asked for in segments, which are kept, and blocks are cut out of them on the host.
//
// Streams. A block belongs to the stream it was allocated for, and so do the segments: each stream has
// its own heaps. Work on a stream runs in order, so a block can be handed out again the moment the host
// gives it back, although the kernels that use it are still queued: the next user comes behind them. This
// is why nothing here waits for the device. A block that another stream uses as well (record_stream) is
// marked there by an event when it is given back, and rests until the event has been reached; the events
// are looked at, never waited for, at the next allocate().
//
// Sizes. Requests up to 1 MiB are rounded to 512 bytes and cut from 2 MiB slabs; larger ones are rounded
// to 64 KiB and live in segments of their own, so that a small long-lived block never splits a large
// segment. Large requests below 16 MiB share segments of 32 MiB; above, a segment is the request rounded
// to 2 MiB, the granularity of the device. Blocks are split to the exact rounded size and merged with free
// neighbours when they return (block_heap_internal.h), so that what one phase of a step leaves behind serves
// the next phase whatever its sizes: the peak follows the bytes in use, not the sum over sizes.
//
// Out of memory. When the system refuses: wait for the resting blocks, give all free segments of all
// streams back, look again, ask again for exactly what is needed. Only then it is an error.
//
// Pools. A captured graph replays kernels with the addresses of its capture. Its blocks come from heaps
// of their own, keyed by pool as well as stream, that empty_cache() leaves alone until the pool is
// released; asking the system for memory does not disturb a capture (core/cuda/runtime.cpp).
//
// One lock per device; the work under it is a hash lookup and a few pointer moves, unless the system is
// asked.

namespace ct::detail {

namespace {

constexpr std::size_t kSmallRequest = std::size_t{1} << 20;
constexpr std::size_t kSmallSegment = std::size_t{2} << 20;
constexpr std::size_t kSharedRequest = std::size_t{16} << 20;
constexpr std::size_t kSharedSegment = std::size_t{32} << 20;
constexpr std::size_t kSegmentGranule = std::size_t{2} << 20;
constexpr std::size_t kSmallGranule = 512;
constexpr std::size_t kLargeGranule = std::size_t{64} << 10;
constexpr std::size_t kLargestRequest = std::size_t{1} << 46;

std::size_t round_up(std::size_t bytes, std::size_t granule) {
  return (bytes + granule - 1) / granule * granule;
}

}  // namespace

// ---- CachingAllocator ----

CachingAllocator::StreamHeaps::StreamHeaps(void* s, MemoryPoolId p)
    : stream(s),
      pool(p),
      small(kSmallGranule, p == 0 ? Fit::best : Fit::first),
      large(kLargeGranule, p == 0 ? Fit::best : Fit::first) {}

CachingAllocator::CachingAllocator(MemorySource& source, std::string name, int pool_slot)
    : source_(source), name_(std::move(name)), pool_slot_(pool_slot) {}

CachingAllocator::~CachingAllocator() {
  settle_pending(true);
  for (auto& heaps : heaps_) free_segments(*heaps);
}

CachingAllocator::StreamHeaps& CachingAllocator::heaps_of(const Stream& stream, MemoryPoolId pool) {
  for (std::size_t i = 0; i < heaps_.size(); ++i) {
    if (heaps_[i]->stream != stream.native || heaps_[i]->pool != pool) continue;
    if (i > 0) std::swap(heaps_[i], heaps_[i - 1]);  // what is used often moves to the front
    return *heaps_[i > 0 ? i - 1 : 0];
  }
  heaps_.push_back(std::make_unique<StreamHeaps>(stream.native, pool));
  return *heaps_.back();
}

void* CachingAllocator::allocate(std::size_t bytes, const Stream& stream) {
  if (bytes == 0) return nullptr;
  const MemoryPoolId pool = pool_slot_ < 0 ? 0 : thread_memory_pool(pool_slot_);
  std::lock_guard lock(mutex_);
  if (bytes > kLargestRequest) fail_out_of_memory(bytes);
  if (!pending_.empty()) settle_pending(false);
  StreamHeaps& heaps = heaps_of(stream, pool);
  Block* block = take(heaps, bytes);
  if (!block) block = grow_and_take(heaps, bytes);
  try {
    blocks_.insert(block);
  } catch (...) {
    block->heap->give(block);
    throw;
  }
  ++stats_.requests;
  stats_.in_use += block->bytes;
  if (stats_.in_use > stats_.peak_in_use) stats_.peak_in_use = stats_.in_use;
  return block->address;
}

Block* CachingAllocator::take(StreamHeaps& heaps, std::size_t bytes) {
  return (bytes <= kSmallRequest ? heaps.small : heaps.large).take(bytes);
}

Block* CachingAllocator::grow_and_take(StreamHeaps& heaps, std::size_t bytes) {
  const bool small = bytes <= kSmallRequest;
  BlockHeap& heap = small ? heaps.small : heaps.large;
  const std::size_t least = small ? kSmallSegment : round_up(bytes, kSegmentGranule);
  const std::size_t wanted = small ? kSmallSegment : bytes < kSharedRequest ? kSharedSegment : least;
  if (add_segment(heap, wanted)) return take(heaps, bytes);
  if (wanted > least && add_segment(heap, least)) return take(heaps, bytes);
  settle_pending(true);
  if (Block* block = take(heaps, bytes)) return block;
  if (free_cache() > 0 && add_segment(heap, least)) return take(heaps, bytes);
  fail_out_of_memory(bytes);
}

bool CachingAllocator::add_segment(BlockHeap& heap, std::size_t bytes) {
  if (limit_ != 0 && (bytes > limit_ || stats_.reserved > limit_ - bytes)) return false;
  void* memory = source_.reserve(bytes);
  if (!memory) return false;
  try {
    heap.add_segment(memory, bytes);
  } catch (...) {
    source_.release(memory, bytes);
    throw;
  }
  ++stats_.allocations;
  stats_.reserved += bytes;
  if (stats_.reserved > stats_.peak_reserved) stats_.peak_reserved = stats_.reserved;
  return true;
}

void CachingAllocator::deallocate(void* address, std::size_t, const Stream&) noexcept {
  if (!address) return;
  std::lock_guard lock(mutex_);
  Block* block = blocks_.erase(address);
  if (!block) return;  // not ours: a caller's bug that must not bring the process down here
  ++stats_.releases;
  stats_.in_use -= block->bytes;
  if (!block->uses) [[likely]] {
    block->heap->give(block);
    return;
  }
  try {
    Pending entry{block, {}};
    for (StreamUse* use = block->uses; use; use = use->next) entry.marks.push_back(source_.mark(use->stream));
    pending_.push_back(std::move(entry));
  } catch (...) {
    // Without marks it is unknown when the block is free: it is never reused.
  }
  while (StreamUse* use = block->uses) {
    block->uses = use->next;
    delete use;
  }
}

void CachingAllocator::record_stream(void* address, std::size_t, const Stream& user) {
  if (!address) return;
  std::lock_guard lock(mutex_);
  Block* block = blocks_.find(address);
  if (!block) return;
  for (StreamUse* use = block->uses; use; use = use->next)
    if (use->stream == user) return;
  StreamUse* use = new StreamUse;
  use->stream = user;
  use->next = block->uses;
  block->uses = use;
}

// Hands resting blocks back to their heaps: those whose marks have been reached, or, waiting, all.
void CachingAllocator::settle_pending(bool wait) {
  for (std::size_t i = 0; i < pending_.size();) {
    Pending& entry = pending_[i];
    while (!entry.marks.empty()) {
      void* mark = entry.marks.back();
      if (wait)
        source_.wait(mark);
      else if (!source_.reached(mark))
        break;
      source_.forget(mark);
      entry.marks.pop_back();
    }
    if (!entry.marks.empty()) {
      ++i;
      continue;
    }
    entry.block->heap->give(entry.block);
    std::swap(entry, pending_.back());
    pending_.pop_back();
  }
}

void CachingAllocator::free_segments(StreamHeaps& heaps) noexcept {
  const auto release = [&](void* address, std::size_t bytes) {
    source_.release(address, bytes);
    ++stats_.frees;
    stats_.reserved -= bytes;
  };
  heaps.small.remove_free_segments(release);
  heaps.large.remove_free_segments(release);
}

// Returns the bytes that went back to the system.
std::size_t CachingAllocator::free_cache() noexcept {
  const std::size_t before = stats_.reserved;
  for (std::size_t i = 0; i < heaps_.size();) {
    StreamHeaps& heaps = *heaps_[i];
    if (heaps.pool == 0 || heaps.released) free_segments(heaps);
    const bool gone = heaps.released && heaps.small.segment_bytes() + heaps.large.segment_bytes() == 0;
    if (gone)
      heaps_.erase(heaps_.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
  return before - stats_.reserved;
}

void CachingAllocator::empty_cache() {
  std::lock_guard lock(mutex_);
  settle_pending(true);
  free_cache();
}

void CachingAllocator::release_pool(MemoryPoolId pool) noexcept {
  if (pool == 0) return;
  std::lock_guard lock(mutex_);
  for (auto& heaps : heaps_) {
    if (heaps->pool != pool) continue;
    heaps->released = true;
    free_segments(*heaps);
  }
}

bool CachingAllocator::uses(const void* address) const {
  const std::lock_guard lock(mutex_);
  return blocks_.find(address) != nullptr;
}

std::size_t CachingAllocator::pool_bytes(MemoryPoolId pool) const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& heaps : heaps_)
    if (heaps->pool == pool) bytes += heaps->small.segment_bytes() + heaps->large.segment_bytes();
  return bytes;
}

MemoryStats CachingAllocator::stats() const {
  std::lock_guard lock(mutex_);
  MemoryStats stats = stats_;
  stats.cached = stats.reserved - stats.in_use;
  return stats;
}

void CachingAllocator::reset_peak() {
  std::lock_guard lock(mutex_);
  stats_.peak_in_use = stats_.in_use;
  stats_.peak_reserved = stats_.reserved;
}

void CachingAllocator::set_limit(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
  if (bytes == 0 || stats_.reserved <= bytes) return;
  settle_pending(true);
  free_cache();
}

void CachingAllocator::fail_out_of_memory(std::size_t bytes) {
  std::size_t free = 0, total = 0;
  const std::string capacity = source_.capacity(&free, &total) ? ", free on device " + format_bytes(free) +
                                                                     " of total " + format_bytes(total)
                                                               : std::string();
  fail<OutOfMemoryError>("allocator", "out of memory on ", name_, ": requested ", format_bytes(bytes),
                         "; in use ", format_bytes(stats_.in_use), ", cached ",
                         format_bytes(stats_.reserved - stats_.in_use),
                         limit_ ? ", limit " + format_bytes(limit_) : std::string(), capacity,
                         "; reduce the batch size, let go of tensors that are no longer needed, call "
                         "ct::empty_cache() if other processes share the device, or use no_grad/recompute");
}

}  // namespace ct::detail
