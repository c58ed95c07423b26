#include <cotangent/core/memory/allocator.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include <cotangent/core/memory/memory.h>
#include <cotangent/core/memory/memory_text_internal.h>
#include <cotangent/core/memory/pool_store_internal.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/testing/allocators.h>

#include "tests/catch.h"

using namespace ct;
using Catch::Matchers::Contains;

namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;
const Stream host;

}  // namespace

// ---- CPU ----

TEST_CASE("allocator: cpu blocks are aligned, disjoint and writable at every size") {
  Allocator& a = current_allocator(cpu);
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  for (std::size_t size :
       {1u,     7u,     63u,    64u,    65u,    511u,    512u,     513u,     640u,     641u,    4096u,
        32767u, 32768u, 32769u, 36864u, 36865u, 100000u, 2097151u, 2097152u, 2097153u, 5000000u})
    for (int copy = 0; copy < 3; ++copy) {
      auto* p = static_cast<unsigned char*>(a.allocate(size, host));
      REQUIRE(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
      std::memset(p, static_cast<int>(blocks.size()), size);
      blocks.emplace_back(p, size);
    }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto [p, size] = blocks[i];
    bool intact = true;
    for (std::size_t j = 0; j < size; ++j) intact = intact && p[j] == static_cast<unsigned char>(i);
    CHECK(intact);
    a.deallocate(p, size, host);
  }
}

TEST_CASE("allocator: zero bytes are a null pointer and nothing else") {
  const std::uint64_t before = memory_stats(cpu).requests;
  void* p = current_allocator(cpu).allocate(0, host);
  CHECK(p == nullptr);
  current_allocator(cpu).deallocate(p, 0, host);
  CHECK(memory_stats(cpu).requests == before);
}

TEST_CASE("allocator: a repeated step asks the system for nothing") {
  if (CT_POOL_BYPASS) return;
  const auto step = [] {
    Allocator& a = current_allocator(cpu);
    std::vector<std::pair<void*, std::size_t>> blocks;
    for (std::size_t i = 0; i < 300; ++i) {
      const std::size_t size = 1 + i * i * i % 3000000;
      blocks.emplace_back(a.allocate(size, host), size);
    }
    for (auto [p, size] : blocks) a.deallocate(p, size, host);
  };
  step();
  const MemoryStats warm = memory_stats(cpu);
  for (int i = 0; i < 5; ++i) step();
  const MemoryStats now = memory_stats(cpu);
  CHECK(now.allocations == warm.allocations);
  CHECK(now.frees == warm.frees);
  CHECK(now.in_use == warm.in_use);
  CHECK(now.requests == warm.requests + 1500);
  CHECK(now.releases == warm.releases + 1500);
}

TEST_CASE("allocator: bytes of the small-block pool are neither lost nor counted twice") {
  if (CT_POOL_BYPASS) return;
  const auto burst = [] {
    std::vector<void*> blocks;
    for (int i = 0; i < 1000; ++i) blocks.push_back(current_allocator(cpu).allocate(200, host));
    for (void* p : blocks) current_allocator(cpu).deallocate(p, 200, host);
  };
  burst();
  const MemoryStats before = memory_stats(cpu);
  for (int i = 0; i < 10; ++i) burst();
  std::thread(burst).join();
  burst();
  const MemoryStats after = memory_stats(cpu);
  // A thread's blocks come from the store or a slab; either way free bytes stay what slabs hold.
  CHECK(after.reserved == before.reserved);
  CHECK(after.cached == before.cached);
  std::vector<void*> blocks;
  bool exact = true;
  for (std::size_t i = 1; i <= 900; ++i) {
    blocks.push_back(current_allocator(cpu).allocate(200, host));
    exact = exact && memory_stats(cpu).cached == after.cached - i * 256;
  }
  CHECK(exact);
  for (void* p : blocks) current_allocator(cpu).deallocate(p, 200, host);
  CHECK(memory_stats(cpu).cached == after.cached);
}

TEST_CASE("allocator: a thread gets the large block back that it has freed itself") {
  if (CT_POOL_BYPASS) return;
  constexpr std::size_t size = 37 * MiB;  // nobody else's
  empty_cache(cpu);
  Allocator& a = current_allocator(cpu);
  void* mine = a.allocate(size, host);
  void* other = a.allocate(size, host);
  a.deallocate(mine, size, host);
  std::thread([&] { a.deallocate(other, size, host); }).join();
  CHECK(a.allocate(size, host) == mine);   // though the other thread's lies on top
  CHECK(a.allocate(size, host) == other);  // better than a new one
  a.deallocate(mine, size, host);
  a.deallocate(other, size, host);
  empty_cache(cpu);
}

TEST_CASE("allocator: cpu statistics follow the blocks, large and small") {
  empty_cache(cpu);
  const MemoryStats before = memory_stats(cpu);
  Allocator& a = current_allocator(cpu);
  void* large = a.allocate(10 * MiB, host);
  void* small = a.allocate(100, host);
  const MemoryStats during = memory_stats(cpu);
  const std::size_t grown = during.in_use - before.in_use;
  CHECK(grown >= 10 * MiB + 100);
  CHECK(grown <= 10 * MiB * 9 / 8 + 128);
  CHECK(during.reserved >= before.reserved + 10 * MiB);
  CHECK(during.peak_in_use >= during.in_use);
  a.deallocate(large, 10 * MiB, host);
  a.deallocate(small, 100, host);
  CHECK(memory_stats(cpu).in_use == before.in_use);
  if (!CT_POOL_BYPASS) CHECK(memory_stats(cpu).cached >= 10 * MiB);
  empty_cache(cpu);
  CHECK(memory_stats(cpu).reserved <= before.reserved + MiB);  // a slab of the pool may have come
  reset_peak_stats(cpu);
  CHECK(memory_stats(cpu).peak_in_use <= before.in_use + 64 * KiB);
}

TEST_CASE("allocator: the peak of the cpu counts from what there is, however many threads have ended") {
  if (CT_POOL_BYPASS) return;
  Allocator& a = current_allocator(cpu);
  std::vector<void*> blocks;
  for (int i = 0; i < 200; ++i)  // each keeps less to itself than it would publish
    std::thread([&] { blocks.push_back(a.allocate(30'000, host)); }).join();
  for (void* block : blocks) a.deallocate(block, 30'000, host);
  const MemoryStats before = memory_stats(cpu);
  reset_peak_stats(cpu);
  a.deallocate(a.allocate(10 * MiB, host), 10 * MiB, host);
  const std::size_t peak = memory_stats(cpu).peak_in_use - before.in_use;
  CHECK(peak >= 10 * MiB - 64 * KiB);
  CHECK(peak <= 10 * MiB * 9 / 8 + 64 * KiB);
}

TEST_CASE("allocator: running out on the cpu says what was asked, what is there and what to try") {
  Allocator& a = current_allocator(cpu);
  const MemoryStats before = memory_stats(cpu);
  CHECK_THROWS_AS(a.allocate(std::size_t{1} << 50, host), OutOfMemoryError);
  CHECK_THROWS_WITH(a.allocate(std::size_t{1} << 50, host),
                    Contains("[allocator] out of memory on cpu: requested 1.00 PiB; in use ") &&
                        Contains(", cached ") && Contains("reduce the batch size"));
  CHECK(memory_stats(cpu).in_use == before.in_use);
  CHECK(memory_stats(cpu).requests == before.requests);
  void* p = a.allocate(MiB, host);  // and the next correct call works
  CHECK(p != nullptr);
  a.deallocate(p, MiB, host);
}

TEST_CASE("allocator: at the limit the cpu cache is freed and the request tried again") {
  if (CT_POOL_BYPASS) return;
  Allocator& a = current_allocator(cpu);
  a.empty_cache();
  // Other tests' tensors may be alive in static objects: measure from there.
  std::size_t held = 0;
  a.set_limit(0);
  void* block = a.allocate(8 * MiB, host);
  held = memory_stats(cpu).reserved;
  a.set_limit(held + MiB);
  CHECK_THROWS_WITH(a.allocate(12 * MiB, host), Contains(", limit "));
  a.deallocate(block, 8 * MiB, host);
  const std::uint64_t frees = memory_stats(cpu).frees;
  void* other = nullptr;
  CHECK_NOTHROW(other = a.allocate(6 * MiB, host));  // fits only once the 8 MiB are given back
  CHECK(memory_stats(cpu).frees == frees + 1);
  a.deallocate(other, 6 * MiB, host);
  a.set_limit(0);
}

TEST_CASE("allocator: cpu blocks below 2 MiB share ranges, which go back when all of them is free") {
  if (CT_POOL_BYPASS) return;
  Allocator& a = current_allocator(cpu);
  constexpr std::size_t size = 112 * KiB;
  empty_cache(cpu);
  const MemoryStats before = memory_stats(cpu);
  std::vector<void*> blocks(18 * 10);  // 18 to a range
  for (void*& p : blocks) p = a.allocate(size, host);
  const MemoryStats during = memory_stats(cpu);
  CHECK(during.allocations <= before.allocations + 11);  // one may be a slab for the books
  CHECK(during.reserved <= before.reserved + 21 * MiB);
  const auto apart = [](const MemoryStats& m) { return m.reserved - m.in_use - m.cached; };
  CHECK(apart(during) <= apart(before) + 64 * KiB);  // the books; ten rests of ranges are 320 KiB
  for (void* p : blocks) a.deallocate(p, size, host);
  CHECK(memory_stats(cpu).cached >= 180 * size);
  void* one = a.allocate(size, host);
  empty_cache(cpu);
  CHECK(memory_stats(cpu).frees >= before.frees + 8);
  CHECK(memory_stats(cpu).reserved <= before.reserved + 3 * MiB);  // the range of `one`
  a.deallocate(one, size, host);
  empty_cache(cpu);
  a.set_limit(memory_stats(cpu).reserved + 1920 * KiB);  // near it a range is no larger than the block
  CHECK_NOTHROW(one = a.allocate(1792 * KiB, host));
  CHECK_THROWS_AS(a.allocate(1792 * KiB, host), OutOfMemoryError);
  a.set_limit(0);
  a.deallocate(one, 1792 * KiB, host);
  empty_cache(cpu);
  CHECK(memory_stats(cpu).reserved <= before.reserved + MiB);
}

TEST_CASE("allocator: a large cpu block takes its addresses with it, and no others") {
  if (CT_POOL_BYPASS) return;
  Allocator& a = current_allocator(cpu);
  const auto mapped = [] {
    std::int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  // With each neighbour the next mapping begins elsewhere between two huge pages.
  constexpr std::size_t size = MiB + 4 * KiB, block = 4608 * KiB;
  std::vector<char*> neighbours(512);
  empty_cache(cpu);
  const std::int64_t before = mapped();
  for (char*& from : neighbours) {
    void* const p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    from = static_cast<char*>(std::memset(p, 1, 1));
    a.deallocate(a.allocate(block, host), block, host);
    empty_cache(cpu);
  }
  CHECK(std::ranges::all_of(neighbours, [](const char* from) { return from[0] == 1; }));
  for (char* from : neighbours) munmap(from, size);
  CHECK(mapped() < before + std::int64_t{8 << 20});
}

TEST_CASE("allocator: blocks may be freed on another thread") {
  const std::size_t before = memory_stats(cpu).in_use;
  std::vector<std::pair<void*, std::size_t>> blocks;
  for (std::size_t i = 0; i < 5000; ++i) {
    const std::size_t size = 16 + i * 37 % 40000;
    void* p = current_allocator(cpu).allocate(size, host);
    std::memset(p, 1, size);
    blocks.emplace_back(p, size);
  }
  std::thread([&] {
    for (auto [p, size] : blocks) current_allocator(cpu).deallocate(p, size, host);
  }).join();
  CHECK(memory_stats(cpu).in_use == before);
}

TEST_CASE("allocator: threads that allocate and free each other's blocks never share one") {
  constexpr int kThreads = 4, kRounds = 2000, kSlots = 64;
  const std::size_t before = memory_stats(cpu).in_use;
  struct Slot {
    std::atomic<std::uint64_t*> block{nullptr};
  };
  std::vector<Slot> slots(kSlots);
  std::atomic<int> broken{0};
  // A block of 64-bit words starts with its length in words; all words after it hold the same number.
  const auto check_and_free = [&](std::uint64_t* block) {
    if (!block) return;
    const std::uint64_t words = block[0];
    for (std::uint64_t i = 2; i < words; ++i)
      if (block[i] != block[1]) broken.fetch_add(1);
    current_allocator(cpu).deallocate(block, words * 8, host);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int round = 0; round < kRounds; ++round) {
        const std::uint64_t words = 2 + random() % (round % 50 == 0 ? 20000 : 300);
        auto* block = static_cast<std::uint64_t*>(current_allocator(cpu).allocate(words * 8, host));
        const std::uint64_t value = (std::uint64_t{random()} << 8) + static_cast<std::uint64_t>(t);
        block[0] = words;
        for (std::uint64_t i = 1; i < words; ++i) block[i] = value;
        check_and_free(slots[random() % kSlots].block.exchange(block));
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (Slot& slot : slots) check_and_free(slot.block.load());
  CHECK(broken.load() == 0);
  CHECK(memory_stats(cpu).in_use == before);
}

namespace {
// Gives a block back while the thread's objects are being destroyed, after the pool's own cache is gone.
struct LateUser {
  void* early = nullptr;
  ~LateUser() {
    current_allocator(cpu).deallocate(early, 100, host);
    void* late = current_allocator(cpu).allocate(200, host);
    std::memset(late, 0, 200);
    current_allocator(cpu).deallocate(late, 200, host);
  }
};
}  // namespace

TEST_CASE("allocator: works in destructors of thread-local objects, whatever their order") {
  const std::size_t before = memory_stats(cpu).in_use;
  for (int i = 0; i < 3; ++i)
    std::thread([] {
      thread_local LateUser user;  // constructed before the thread's cache, destroyed after it
      user.early = current_allocator(cpu).allocate(100, host);
    }).join();
  CHECK(memory_stats(cpu).in_use == before);
}

TEST_CASE("allocator: works in static destructors at exit") {
  static LateUser user;  // also destroyed when this test program ends
  user.early = current_allocator(cpu).allocate(100, host);
  SUCCEED();
}

// ---- Registry ----

TEST_CASE("allocator: replaced allocators get their blocks back") {
  auto counting = std::make_shared<testing::FailingAllocator>(allocator(cpu));
  Allocator* raw = nullptr;
  void* block = nullptr;
  {
    AllocatorGuard guard(cpu, counting);
    raw = &current_allocator(cpu);
    CHECK(raw == counting.get());
    block = raw->allocate(1000, host);
  }
  CHECK(&current_allocator(cpu) != raw);
  CHECK(counting->live_blocks() == 1);
  std::weak_ptr<testing::FailingAllocator> watch = counting;
  counting.reset();
  REQUIRE_FALSE(watch.expired());  // an allocator that was installed outlives its blocks
  raw->deallocate(block, 1000, host);
  CHECK(watch.lock()->live_blocks() == 0);
  CHECK_THROWS_AS(set_allocator(cpu, nullptr), ValueError);
}

TEST_CASE("allocator: summary and units") {
  CHECK(detail::format_bytes(0) == "0 B");
  CHECK(detail::format_bytes(1023) == "1023 B");
  CHECK(detail::format_bytes(1536) == "1.50 KiB");
  CHECK(detail::format_bytes(2 * GiB) == "2.00 GiB");
  CHECK(detail::format_bytes(MiB - 1) == "1.00 MiB");
  CHECK_THAT(memory_summary(cpu), Contains("memory of cpu") && Contains("in use, peak"));
}

// ---- GPU ----

TEST_CASE("allocator: gpu blocks hold data, are reused and are counted", "[cuda]") {
  const Device gpu = cuda(0);
  const Stream s = current_stream(gpu);
  Allocator& a = current_allocator(gpu);
  const MemoryStats before = memory_stats(gpu);
  std::vector<int> out(1 << 20), in(1 << 20, -1);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int>(i * 7);
  void* p = a.allocate(4 * MiB, s);
  CHECK(memory_stats(gpu).in_use == before.in_use + 4 * MiB);
  copy_bytes(p, gpu, out.data(), cpu, 4 * MiB);
  void* q = a.allocate(4 * MiB, s);
  copy_bytes(q, gpu, p, gpu, 4 * MiB);
  fill_bytes(p, gpu, 0, 4 * MiB);
  copy_bytes(in.data(), cpu, q, gpu, 4 * MiB);
  CHECK(in == out);
  copy_bytes(in.data(), cpu, p, gpu, 4 * MiB);
  CHECK(in == std::vector<int>(1 << 20, 0));
  a.deallocate(p, 4 * MiB, s);
  CHECK(a.allocate(4 * MiB, s) == p);
  a.deallocate(p, 4 * MiB, s);
  a.deallocate(q, 4 * MiB, s);
  CHECK(memory_stats(gpu).in_use == before.in_use);
  CHECK_THAT(memory_summary(gpu), Contains("memory of cuda:0"));
}

TEST_CASE("allocator: running out on the gpu is an error that passes", "[cuda]") {
  const Device gpu = cuda(0);
  const Stream s = current_stream(gpu);
  Allocator& a = current_allocator(gpu);
  CHECK_THROWS_WITH(a.allocate(2000 * GiB, s),
                    Contains("[allocator] out of memory on cuda:0: requested 1.95 TiB; in use ") &&
                        Contains(", free on device ") && Contains(" of total "));
  // Nearly everything, three times with the streams taking turns: works only if the cache is given back.
  empty_cache(gpu);
  const std::size_t most = cuda_properties(0).total_memory / 2;
  const Stream other = new_stream(gpu);
  for (const Stream& stream : {s, other, s}) {
    void* p = a.allocate(most, stream);
    fill_bytes(p, gpu, 1, MiB);
    a.deallocate(p, most, stream);
  }
  synchronize(gpu);
  empty_cache(gpu);
}

TEST_CASE("allocator: a gpu block is not reused while another stream works on it", "[cuda]") {
  const Device gpu = cuda(0);
  const Stream own = new_stream(gpu), user = new_stream(gpu);
  Allocator& a = current_allocator(gpu);
  constexpr std::size_t kBytes = 512 * MiB;
  void* p = a.allocate(kBytes, own);
  {
    StreamGuard guard(user);
    for (int i = 0; i < 200; ++i) fill_bytes(p, gpu, i, kBytes);  // some 30 ms of work
  }
  a.record_stream(p, kBytes, user);
  a.deallocate(p, kBytes, own);
  REQUIRE_FALSE(user.query());
  void* q = a.allocate(kBytes, own);
  CHECK(q != p);
  user.synchronize();
  void* r = a.allocate(kBytes, own);
  CHECK(r == p);
  a.deallocate(q, kBytes, own);
  a.deallocate(r, kBytes, own);
  empty_cache(gpu);
}

TEST_CASE("allocator: pinned memory is cached and copies from it are asynchronous", "[cuda]") {
  const Device gpu = cuda(0);
  const Stream s = new_stream(gpu);
  Allocator& pinned = pinned_allocator();
  constexpr std::size_t kBytes = 64 * MiB;
  void* host_block = pinned.allocate(kBytes, host);
  void* block = current_allocator(gpu).allocate(kBytes, s);
  std::memset(host_block, 5, kBytes);
  {
    StreamGuard guard(s);
    copy_bytes(block, gpu, host_block, cpu, kBytes, true);
    CHECK_FALSE(s.query());  // 64 MiB take more than a millisecond
    pinned.record_stream(host_block, kBytes, s);
    pinned.deallocate(host_block, kBytes, host);
    void* meanwhile = pinned.allocate(kBytes, host);
    CHECK(meanwhile != host_block);
    pinned.deallocate(meanwhile, kBytes, host);
  }
  s.synchronize();
  std::vector<unsigned char> back(kBytes);
  copy_bytes(back.data(), cpu, block, gpu, kBytes);
  CHECK(back == std::vector<unsigned char>(kBytes, 5));
  current_allocator(gpu).deallocate(block, kBytes, s);
  pinned.empty_cache();
}
