#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <cotangent/core/base/error.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/nn/profile/profile_internal.h>

// Births and deaths of blocks. Storages give a block back to the allocator that it came from, so an allocator in front of a
// device's sees both, and storages need not know of it.

namespace ct::profile_impl {

struct MemoryWatch::Entry {
  enum Kind : std::uint8_t { born, dead, claimed, in_use } kind;
  std::uint8_t device;  // 0: the CPU
  std::int32_t call;
  const void* block;
  std::size_t bytes;
};

class Watched;

namespace {

using Entry = MemoryWatch::Entry;

// Where the watch that lives is found, by allocators that outlive it.
struct Current {
  std::mutex mutex;
  std::vector<Entry>* log = nullptr;
  std::atomic<bool> on{false};
  std::map<Allocator*, std::shared_ptr<Watched>> front;  // what stands in front of each allocator
};
Current& current() {
  static Current& only = *new Current;
  return only;
}
constinit thread_local const std::int32_t* t_open = nullptr;

void note(Entry::Kind kind, int device, const void* block, std::size_t bytes) noexcept {
  Current& all = current();
  if (!all.on.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(all.mutex);
  try {
    if (all.log)
      all.log->push_back(
          {kind, static_cast<std::uint8_t>(device), t_open ? *t_open : MemoryWatch::kOthers, block, bytes});
  } catch (const std::bad_alloc&) {}  // NOLINT: a report with a gap, rather than a program that ends
}

}  // namespace

// An allocator in front of another. It stays when the watch ends, for the blocks that came from it.
class Watched final : public Allocator {
 public:
  Watched(std::shared_ptr<Allocator> of, int device) : of_(std::move(of)), device_(device) {}
  void* allocate(std::size_t bytes, const Stream& stream) override {
    sample();  // blocks from before may have died
    void* const block = of_->allocate(bytes, stream);
    note(Entry::born, device_, block, bytes);
    return block;
  }
  void deallocate(void* block, std::size_t bytes, const Stream& stream) noexcept override {
    note(Entry::dead, device_, block, bytes);  // first: another thread may get the block at once
    of_->deallocate(block, bytes, stream);
  }
  void record_stream(void* block, std::size_t bytes, const Stream& user) override {
    of_->record_stream(block, bytes, user);
  }
  void sample() const {
    if (current().on.load(std::memory_order_relaxed))
      note(Entry::in_use, device_, nullptr, of_->stats().in_use);
  }
  void empty_cache() override { of_->empty_cache(); }
  MemoryStats stats() const override { return of_->stats(); }
  void reset_peak() override { of_->reset_peak(); }
  void set_limit(std::size_t bytes) override { of_->set_limit(bytes); }

 private:
  const std::shared_ptr<Allocator> of_;
  const int device_;
};

namespace {
Device device_of(int slot) { return slot == 0 ? cpu : cuda(slot - 1); }
}  // namespace

struct MemoryWatch::Log {
  struct Place {
    int slot;
    std::shared_ptr<Allocator> own;
    std::shared_ptr<Watched> watched;
  };
  std::vector<Entry> entries;
  std::vector<Place> places;
};

MemoryWatch::MemoryWatch(const std::int32_t& open) : log_(std::make_unique<Log>()) {
  Current& all = current();
  for (int slot = 0; slot <= kMaxCudaDevices; ++slot) {
    if (slot > 0 && !detail::g_current_allocators[slot].load(std::memory_order_acquire)) continue;
    log_->places.push_back({slot, allocator(device_of(slot)), nullptr});
  }
  {
    const std::lock_guard lock(all.mutex);
    CT_CHECK(
        !all.log, Error, "Profiler",
        "the memory is followed already, by another Profiler; stop that one first, or leave out .memory");
    for (Log::Place& place : log_->places) {
      std::shared_ptr<Watched>& front = all.front[place.own.get()];
      if (!front) front = std::make_shared<Watched>(place.own, place.slot);
      place.watched = front;
    }
    log_->entries.reserve(1 << 14);
    all.log = &log_->entries;
  }
  for (const Log::Place& place : log_->places) set_allocator(device_of(place.slot), place.watched);
  all.on = true;
  t_open = &open;
  for (const Log::Place& place : log_->places) place.watched->sample();
}

MemoryWatch::~MemoryWatch() {
  for (const Log::Place& place : log_->places)
    if (allocator(device_of(place.slot)) == place.watched) set_allocator(device_of(place.slot), place.own);
  Current& all = current();
  const std::lock_guard lock(all.mutex);
  all.on = false;
  all.log = nullptr;
  t_open = nullptr;
}

void MemoryWatch::claim(const Tensor& t) {
  if (t.defined() && t.impl()->storage->bytes() > 0)
    note(Entry::claimed, t.device().is_cpu() ? 0 : 1 + t.device().index, t.impl()->storage->data(), 0);
}

std::vector<MemoryWatch::Peak> MemoryWatch::peaks() const {
  struct Block {
    std::int32_t call;
    std::size_t bytes, born, died = SIZE_MAX;
  };
  struct State {
    std::vector<Block> blocks;
    std::unordered_map<const void*, std::size_t> alive;
    std::size_t sum = 0, before = 0, at_peak = 0, before_at_peak = 0, when = 0;
    std::int32_t call = kOutside;
  };
  std::map<int, State> devices;
  for (std::size_t i = 0; i < log_->entries.size(); ++i) {
    const Entry& e = log_->entries[i];
    State& s = devices[e.device];
    const auto found = s.alive.find(e.block);
    switch (e.kind) {
      case Entry::born:
        s.alive[e.block] = s.blocks.size();
        s.blocks.push_back({e.call, e.bytes, i});
        s.sum += e.bytes;
        break;
      case Entry::dead:
        if (found == s.alive.end()) break;  // born before
        s.blocks[found->second].died = i;
        s.sum -= s.blocks[found->second].bytes;
        s.alive.erase(found);
        break;
      case Entry::claimed:
        if (found != s.alive.end() && s.blocks[found->second].call == kOutside)
          s.blocks[found->second].call = e.call;
        break;
      case Entry::in_use: s.before = e.bytes > s.sum ? e.bytes - s.sum : 0; break;
    }
    if (s.sum + s.before > s.at_peak)
      s.at_peak = s.sum + s.before, s.before_at_peak = s.before, s.when = i, s.call = e.call;
  }
  std::vector<Peak> result;
  for (const auto& [slot, s] : devices) {
    Peak& peak = result.emplace_back();
    peak.device = device_of(slot), peak.bytes = s.at_peak, peak.call = s.call;
    std::map<std::int32_t, std::size_t> owners;
    owners[kBefore] = s.before_at_peak;
    for (const Block& b : s.blocks)
      if (b.born <= s.when && b.died > s.when) owners[b.call] += b.bytes;
    for (const auto& [call, bytes] : owners)
      if (bytes > 0) peak.owners.emplace_back(call, bytes);
    // The last block may be a result, which was asked for before its call.
    for (const Block& b : s.blocks)
      if (b.born == s.when) peak.call = b.call;
  }
  return result;
}

}  // namespace ct::profile_impl
