// The caching allocator and its parts, on a device that is made up: no GPU is needed.

#include <cotangent/core/memory/caching_allocator_internal.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <cotangent/core/memory/block_heap_internal.h>

#include "tests/catch.h"

using namespace ct;
using Catch::Matchers::Contains;

namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

// A made-up device: addresses that must not be touched, streams whose work is done when the test says so.
struct FakeSource : detail::MemorySource {
  std::size_t total = 1 * GiB, used = 0;
  std::uintptr_t next = std::uintptr_t{1} << 40;
  std::map<void*, std::size_t> segments;
  std::set<std::intptr_t> open;  // marks not reached yet
  std::intptr_t last_mark = 0;
  int waits = 0;

  void* reserve(std::size_t bytes) override {
    if (used + bytes > total) return nullptr;
    used += bytes;
    void* memory = reinterpret_cast<void*>(next);
    next += bytes + 64 * MiB;
    segments[memory] = bytes;
    return memory;
  }
  void release(void* memory, std::size_t bytes) noexcept override {
    if (segments.at(memory) != bytes) std::abort();
    segments.erase(memory);
    used -= bytes;
  }
  void* mark(const Stream&) override {
    open.insert(++last_mark);
    return reinterpret_cast<void*>(last_mark);
  }
  bool reached(void* mark) override { return open.count(reinterpret_cast<std::intptr_t>(mark)) == 0; }
  void wait(void* mark) override {
    ++waits;
    open.erase(reinterpret_cast<std::intptr_t>(mark));
  }
  void forget(void*) noexcept override {}
  bool capacity(std::size_t* free, std::size_t* all) noexcept override {
    *free = total - used;
    *all = total;
    return true;
  }
};

Stream fake_stream(std::intptr_t id) {
  return Stream{reinterpret_cast<void*>(id), cuda(0), static_cast<std::int32_t>(id)};
}

}  // namespace

// ---- The heap that cuts segments into blocks ----

TEST_CASE("block heap: random use keeps blocks disjoint and merges everything back") {
  detail::BlockHeap heap(512);
  std::mt19937 random(7);
  constexpr std::size_t kSegment = 4 * MiB;
  char* const base = reinterpret_cast<char*>(std::uintptr_t{1} << 40);
  int segments = 0;
  std::map<char*, detail::Block*> taken;
  for (int round = 0; round < 20000; ++round) {
    if (taken.size() < 200 && random() % 2) {
      const std::size_t size = 1 + random() % (random() % 8 ? 5000 : 900000);
      detail::Block* block = heap.take(size);
      if (!block) {
        heap.add_segment(base + 2 * kSegment * static_cast<std::size_t>(segments++), kSegment);
        block = heap.take(size);
      }
      REQUIRE(block);
      REQUIRE(block->bytes >= size);
      REQUIRE(block->bytes < size + 512);  // exact to the granule: the rest was split off
      const auto above = taken.lower_bound(block->address);
      if (above != taken.end()) REQUIRE(block->address + block->bytes <= above->first);
      if (above != taken.begin())
        REQUIRE(std::prev(above)->first + std::prev(above)->second->bytes <= block->address);
      taken[block->address] = block;
    } else if (!taken.empty()) {
      auto it = std::next(taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size()));
      heap.give(it->second);
      taken.erase(it);
    }
  }
  CHECK(segments < 20);
  for (auto& [address, block] : taken) heap.give(block);
  CHECK(heap.largest_free() == kSegment);
  int released = 0;
  heap.remove_free_segments([&](void*, std::size_t bytes) {
    CHECK(bytes == kSegment);
    ++released;
  });
  CHECK(released == segments);
  CHECK(heap.segment_bytes() == 0);
}

TEST_CASE("block heap: the best of the fitting blocks is taken") {
  detail::BlockHeap heap(512);
  heap.add_segment(reinterpret_cast<void*>(std::uintptr_t{1} << 40), 512 * 1000);
  heap.add_segment(reinterpret_cast<void*>(std::uintptr_t{2} << 40), 512 * 100);
  detail::Block* block = heap.take(512 * 98);
  CHECK(block->address == reinterpret_cast<char*>(std::uintptr_t{2} << 40));
  CHECK(heap.take(512 * 1001) == nullptr);
  heap.give(block);
  heap.remove_free_segments([](void*, std::size_t) {});
}

TEST_CASE("block map: finds and forgets under collisions") {
  detail::BlockMap map;
  std::vector<detail::Block> blocks(5000);
  std::mt19937_64 random(3);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].address = reinterpret_cast<char*>((random() % 100000 * 5000 + i) << 9);
    map.insert(&blocks[i]);
  }
  for (std::size_t i = 0; i < blocks.size(); i += 2) REQUIRE(map.erase(blocks[i].address) == &blocks[i]);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    REQUIRE(map.find(blocks[i].address) == (i % 2 ? &blocks[i] : nullptr));
  CHECK(map.erase(blocks[0].address) == nullptr);
}

// ---- The caching allocator on a made-up device ----

TEST_CASE("caching allocator: same stream reuses at once, another stream never") {
  FakeSource source;
  detail::CachingAllocator a(source, "cuda:0", -1);
  const Stream s1 = fake_stream(1), s2 = fake_stream(2);
  for (std::size_t size : {std::size_t{100}, 3 * MiB, 40 * MiB}) {
    void* p = a.allocate(size, s1);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 512 == 0);
    a.deallocate(p, size, s1);
    void* other = a.allocate(size, s2);
    CHECK(other != p);
    void* again = a.allocate(size, s1);
    CHECK(again == p);
    a.deallocate(other, size, s2);
    a.deallocate(again, size, s1);
  }
  CHECK(source.waits == 0);
  CHECK(a.stats().in_use == 0);
  CHECK(a.stats().allocations == 6);
  a.empty_cache();
  CHECK(source.used == 0);
}

TEST_CASE("caching allocator: a block used by another stream rests until that work is done") {
  FakeSource source;
  detail::CachingAllocator a(source, "cuda:0", -1);
  const Stream own = fake_stream(1), user = fake_stream(2);
  void* p = a.allocate(20 * MiB, own);
  a.record_stream(p, 20 * MiB, user);
  a.record_stream(p, 20 * MiB, user);  // said twice, marked once
  a.deallocate(p, 20 * MiB, own);
  CHECK(source.last_mark == 1);
  void* q = a.allocate(20 * MiB, own);
  CHECK(q != p);
  source.open.clear();  // the other stream's work is done
  void* r = a.allocate(20 * MiB, own);
  CHECK(r == p);
  CHECK(source.waits == 0);
  a.deallocate(q, 20 * MiB, own);
  a.deallocate(r, 20 * MiB, own);
  CHECK(source.last_mark == 1);  // the note does not stick to the address
}

TEST_CASE("caching allocator: on failure the cache is freed, resting blocks are awaited, then it succeeds") {
  FakeSource source;
  source.total = 128 * MiB;
  detail::CachingAllocator a(source, "cuda:0", -1);
  const Stream s1 = fake_stream(1), s2 = fake_stream(2);
  void* p = a.allocate(60 * MiB, s1);
  void* q = a.allocate(60 * MiB, s2);
  a.deallocate(p, 60 * MiB, s1);
  a.record_stream(q, 60 * MiB, s1);
  a.deallocate(q, 60 * MiB, s2);
  void* big = nullptr;
  CHECK_NOTHROW(big = a.allocate(120 * MiB, s1));
  CHECK(source.waits == 1);
  CHECK(a.stats().frees == 2);
  CHECK(a.stats().reserved == 120 * MiB);
  a.deallocate(big, 120 * MiB, s1);
}

TEST_CASE("caching allocator: out of memory leaves everything as it was") {
  FakeSource source;
  source.total = 128 * MiB;
  detail::CachingAllocator a(source, "cuda:0", -1);
  const Stream s = fake_stream(1);
  void* p = a.allocate(64 * MiB, s);
  CHECK_THROWS_WITH(
      a.allocate(2 * GiB, s),
      Contains("[allocator] out of memory on cuda:0: requested 2.00 GiB; in use 64.00 MiB, cached "
               "0 B, free on device 64.00 MiB of total 128.00 MiB; reduce the batch size") &&
          Contains("ct::empty_cache()"));
  CHECK_THROWS_AS(a.allocate(~std::size_t{0}, s), OutOfMemoryError);
  CHECK(a.stats().requests == 1);
  void* q = a.allocate(64 * MiB, s);
  CHECK(q);
  a.deallocate(p, 64 * MiB, s);
  a.deallocate(q, 64 * MiB, s);
  a.empty_cache();
  a.set_limit(32 * MiB);
  CHECK_THROWS_WITH(a.allocate(33 * MiB, s), Contains(", limit 32.00 MiB"));
  a.set_limit(0);
}

TEST_CASE("caching allocator: phases of different sizes share their memory") {
  FakeSource source;
  detail::CachingAllocator a(source, "cuda:0", -1);
  const Stream s = fake_stream(1);
  std::size_t first_reserved = 0;
  for (int step = 0; step < 3; ++step) {
    void* logits = a.allocate(300 * MiB, s);
    a.deallocate(logits, 300 * MiB, s);
    std::vector<void*> parts;
    for (int i = 0; i < 14; ++i) parts.push_back(a.allocate(20 * MiB + 1000, s));
    for (void* part : parts) a.deallocate(part, 20 * MiB + 1000, s);
    if (step == 0) first_reserved = a.stats().reserved;
  }
  CHECK(first_reserved == 300 * MiB);
  CHECK(a.stats().allocations == 1);
  CHECK(a.stats().peak_in_use == 300 * MiB);
}

TEST_CASE("caching allocator: a memory pool keeps its addresses until it is released") {
  FakeSource source;
  detail::CachingAllocator a(source, "cuda:0", 0);
  const Stream s = fake_stream(1);
  const MemoryPoolId pool = 1 << 30;
  void* shared = a.allocate(20 * MiB, s);
  a.deallocate(shared, 20 * MiB, s);
  MemoryPoolId& current = detail::thread_memory_pool(0);
  current = pool;
  void* p = a.allocate(20 * MiB, s);
  CHECK(p != shared);
  void* kept = a.allocate(20 * MiB, s);
  a.deallocate(p, 20 * MiB, s);
  CHECK(a.allocate(20 * MiB, s) == p);
  a.deallocate(p, 20 * MiB, s);
  current = 0;
  a.empty_cache();
  CHECK(source.used == 40 * MiB);  // the common block went, the pool's stay
  void* common = a.allocate(20 * MiB, s);
  CHECK(common != p);
  a.release_pool(pool);
  CHECK(source.used == 40 * MiB);  // the free one went, the one in use stays with the common one
  a.deallocate(kept, 20 * MiB, s);
  a.empty_cache();
  CHECK(source.used == 20 * MiB);
  a.deallocate(common, 20 * MiB, s);
}

TEST_CASE("caching allocator: threads may allocate and free across one another") {
  FakeSource source;
  source.total = 64 * GiB;
  detail::CachingAllocator a(source, "cuda:0", -1);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      const Stream s = fake_stream(1 + t % 2);
      std::vector<std::pair<void*, std::size_t>> blocks;
      for (int i = 0; i < 3000; ++i) {
        const std::size_t size = 1 + random() % (3 * MiB);
        blocks.emplace_back(a.allocate(size, s), size);
        if (!blocks.back().first) failures.fetch_add(1);
        if (blocks.size() > 20) {
          const std::size_t at = random() % blocks.size();
          std::swap(blocks[at], blocks.back());
          a.deallocate(blocks.back().first, blocks.back().second, s);
          blocks.pop_back();
        }
      }
      for (auto [p, size] : blocks) a.deallocate(p, size, s);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(failures.load() == 0);
  CHECK(a.stats().in_use == 0);
  CHECK(a.stats().requests == 12000);
  a.empty_cache();
  CHECK(source.used == 0);
}
