#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <cotangent/core/device/stream.h>
#include <cotangent/core/memory/pool.h>

// Divides address ranges into blocks and puts them together again. Internal: the bookkeeping of
// core/memory/caching_allocator_internal.h, apart from it so that it can be tested without a device. It never
// touches the memory that it manages.
//
// A range ("segment") is a doubly linked row of blocks, each free or taken; two free neighbours are always
// merged. Free blocks are kept in lists by size: exact below 16 granules, then 16 lists per doubling, with
// a bitmap of the lists that are not empty (the two-level segregated fit of Masmano et al., 2004, with
// the descriptors outside the memory). Taking a block looks for the best fit among the first blocks of the
// list of its own size, then takes from the next list that is not empty, where every block fits: constant
// time, and the waste of a wrong choice is at most 1/16, all of which is split off again.
//
// Fit::first takes the first free block that is large enough, in the order of segments and addresses, and looks at all
// of them for it: which one that is follows from the taken blocks alone, not from how they came to be. A step that is
// repeated in a memory pool finds the same addresses, and so does one that had to ask for the segments.

namespace ct::detail {

class BlockHeap;

/// Streams other than its own that use a block.
struct StreamUse : Pooled {
  Stream stream;
  StreamUse* next = nullptr;
};

struct Block : Pooled {
  char* address = nullptr;
  std::size_t bytes = 0;
  Block* before = nullptr;  // neighbours in the segment
  Block* after = nullptr;
  Block* previous_free = nullptr;  // neighbours in the free list
  Block* next_free = nullptr;
  BlockHeap* heap = nullptr;
  StreamUse* uses = nullptr;
  std::uint32_t segment = 0;  // counted as they are added
  bool free = false;
};

enum class Fit : std::uint8_t { best, first };

class CT_API BlockHeap {
 public:
  /// Blocks are multiples of `granule` bytes, a power of two.
  explicit BlockHeap(std::size_t granule, Fit fit = Fit::best) : granule_(granule), fit_(fit) {}
  /// Every block must have been given back. The segments themselves are not ours to release.
  ~BlockHeap();
  BlockHeap(const BlockHeap&) = delete;
  BlockHeap& operator=(const BlockHeap&) = delete;

  std::size_t rounded(std::size_t bytes) const { return (bytes + granule_ - 1) & ~(granule_ - 1); }

  /// Adds a range as one free block; `bytes` must be a multiple of the granule.
  void add_segment(void* address, std::size_t bytes);
  /// A taken block of rounded(bytes), or null when no free block is large enough.
  Block* take(std::size_t bytes);
  /// Takes a block back and merges it with free neighbours.
  void give(Block* block) noexcept;

  /// Removes every segment that is entirely free and calls release(address, bytes) on each.
  template <class Release>
  void remove_free_segments(Release&& release) {
    for (int list = 0; list < kLists; ++list) {
      for (Block* block = lists_[list]; block;) {
        Block* next = block->next_free;
        if (!block->before && !block->after) {
          unlink(block);
          release(static_cast<void*>(block->address), block->bytes);
          segment_bytes_ -= block->bytes;
          delete block;
        }
        block = next;
      }
    }
  }

  /// Bytes of all segments.
  std::size_t segment_bytes() const { return segment_bytes_; }
  /// The size of the largest free block.
  std::size_t largest_free() const;

 private:
  static constexpr int kLists = 40 * 16;
  static constexpr int kWords = kLists / 64;

  Block* best(std::size_t size) const;
  Block* first(std::size_t size) const;
  int list_of(std::size_t bytes) const;
  int next_list(int from) const;  // the first list at or after `from` that is not empty, or -1
  void link(Block* block) noexcept;
  void unlink(Block* block) noexcept;

  std::size_t granule_;
  Fit fit_;
  std::uint32_t segments_ = 0;  // added so far
  std::size_t segment_bytes_ = 0;
  Block* lists_[kLists] = {};
  std::uint64_t filled_[kWords] = {};
};

/// Open addressing from block address to block; grows, never shrinks. Not thread-safe.
class CT_API BlockMap {
 public:
  void insert(Block* block);
  Block* find(const void* address) const noexcept;
  Block* erase(const void* address) noexcept;  // null when it is not there

 private:
  std::size_t slot_of(const void* address) const noexcept;
  std::vector<Block*> slots_;
  std::size_t size_ = 0;
};

}  // namespace ct::detail
