#include <cotangent/core/memory/block_heap_internal.h>

#include <bit>

namespace ct::detail {

BlockHeap::~BlockHeap() {
  for (Block* block : lists_)
    while (block) delete std::exchange(block, block->next_free);
}

int BlockHeap::list_of(std::size_t bytes) const {
  const std::size_t granules = bytes / granule_;
  if (granules < 16) return static_cast<int>(granules);
  const int log = std::bit_width(granules) - 1;  // >= 4
  const int list = (log - 3) * 16 + static_cast<int>((granules >> (log - 4)) & 15);
  return list < kLists ? list : kLists - 1;
}

int BlockHeap::next_list(int from) const {
  if (from >= kLists) return -1;
  int word = from / 64;
  std::uint64_t bits = filled_[word] & (~std::uint64_t{0} << (from % 64));
  while (bits == 0) {
    if (++word == kWords) return -1;
    bits = filled_[word];
  }
  return word * 64 + std::countr_zero(bits);
}

void BlockHeap::link(Block* block) noexcept {
  const int list = list_of(block->bytes);
  block->free = true;
  block->previous_free = nullptr;
  block->next_free = lists_[list];
  if (block->next_free) block->next_free->previous_free = block;
  lists_[list] = block;
  filled_[list / 64] |= std::uint64_t{1} << (list % 64);
}

void BlockHeap::unlink(Block* block) noexcept {
  const int list = list_of(block->bytes);
  block->free = false;
  if (block->next_free) block->next_free->previous_free = block->previous_free;
  if (block->previous_free)
    block->previous_free->next_free = block->next_free;
  else
    lists_[list] = block->next_free;
  if (!lists_[list]) filled_[list / 64] &= ~(std::uint64_t{1} << (list % 64));
}

void BlockHeap::add_segment(void* address, std::size_t bytes) {
  Block* block = new Block;
  block->address = static_cast<char*>(address);
  block->bytes = bytes;
  block->heap = this;
  block->segment = segments_++;
  segment_bytes_ += bytes;
  link(block);
}

Block* BlockHeap::first(std::size_t size) const {
  const auto place = [](const Block* block) { return std::pair(block->segment, block->address); };
  Block* found = nullptr;
  for (int list = next_list(list_of(size)); list >= 0; list = next_list(list + 1))
    for (Block* block = lists_[list]; block; block = block->next_free)
      if (block->bytes >= size && (!found || place(block) < place(found))) found = block;
  return found;
}

Block* BlockHeap::best(std::size_t size) const {
  const int own = list_of(size);
  Block* best = nullptr;
  // Blocks of the own list may be too small by up to 1/16. Looking at a few is enough: a step that
  // repeats finds the block it gave back at the front.
  int looked = 0;
  for (Block* block = lists_[own]; block && looked < 16; block = block->next_free, ++looked) {
    if (block->bytes < size || (best && block->bytes >= best->bytes)) continue;
    best = block;
    if (block->bytes == size) break;
  }
  if (!best) {
    if (const int list = next_list(own + 1); list >= 0) best = lists_[list];
  }
  if (!best) {
    for (Block* block = lists_[own]; block && !best; block = block->next_free)
      if (block->bytes >= size) best = block;
  }
  return best;
}

Block* BlockHeap::take(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  Block* const block = fit_ == Fit::first ? first(size) : best(size);
  if (!block) return nullptr;
  if (block->bytes > size) {
    Block* rest = new Block;  // may throw: nothing has been changed yet
    unlink(block);
    rest->address = block->address + size;
    rest->bytes = block->bytes - size;
    rest->heap = this;
    rest->segment = block->segment;
    rest->before = block;
    rest->after = block->after;
    if (rest->after) rest->after->before = rest;
    block->after = rest;
    block->bytes = size;
    link(rest);
  } else {
    unlink(block);
  }
  return block;
}

void BlockHeap::give(Block* block) noexcept {
  if (Block* after = block->after; after && after->free) {
    unlink(after);
    block->bytes += after->bytes;
    block->after = after->after;
    if (block->after) block->after->before = block;
    delete after;
  }
  if (Block* before = block->before; before && before->free) {
    unlink(before);
    before->bytes += block->bytes;
    before->after = block->after;
    if (before->after) before->after->before = before;
    delete block;
    block = before;
  }
  link(block);
}

std::size_t BlockHeap::largest_free() const {
  std::size_t largest = 0;
  for (int list = next_list(0); list >= 0; list = next_list(list + 1))
    for (Block* block = lists_[list]; block; block = block->next_free)
      if (block->bytes > largest) largest = block->bytes;
  return largest;
}

// ---- BlockMap: linear probing, at most half full; deletion shifts the rest of the run back ----

std::size_t BlockMap::slot_of(const void* address) const noexcept {
  const std::uint64_t key = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(address)) >> 6;
  return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15ull) >> 20) & (slots_.size() - 1);
}

void BlockMap::insert(Block* block) {
  if (2 * (size_ + 1) > slots_.size()) {
    std::vector<Block*> old(slots_.empty() ? 1024 : 2 * slots_.size(), nullptr);
    old.swap(slots_);
    size_ = 0;
    for (Block* kept : old)
      if (kept) insert(kept);
  }
  std::size_t slot = slot_of(block->address);
  while (slots_[slot]) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = block;
  ++size_;
}

Block* BlockMap::find(const void* address) const noexcept {
  if (slots_.empty()) return nullptr;
  for (std::size_t slot = slot_of(address); slots_[slot]; slot = (slot + 1) & (slots_.size() - 1))
    if (slots_[slot]->address == address) return slots_[slot];
  return nullptr;
}

Block* BlockMap::erase(const void* address) noexcept {
  if (slots_.empty()) return nullptr;
  const std::size_t mask = slots_.size() - 1;
  std::size_t hole = slot_of(address);
  while (slots_[hole] && slots_[hole]->address != address) hole = (hole + 1) & mask;
  Block* found = slots_[hole];
  if (!found) return nullptr;
  for (std::size_t slot = (hole + 1) & mask; slots_[slot]; slot = (slot + 1) & mask) {
    const std::size_t home = slot_of(slots_[slot]->address);
    // Entries whose home lies behind the hole (cyclically) stay reachable where they are.
    if (((slot - home) & mask) < ((slot - hole) & mask)) continue;
    slots_[hole] = slots_[slot];
    hole = slot;
  }
  slots_[hole] = nullptr;
  --size_;
  return found;
}

}  // namespace ct::detail
