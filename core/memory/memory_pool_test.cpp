#include <cotangent/core/memory/allocator.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <cotangent/core/memory/caching_allocator_internal.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/core/memory/pool_store_internal.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/testing/allocators.h>

#include "tests/catch.h"

using namespace ct;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t KiB = 1024, MiB = 1024 * KiB;

// Held from the system, but for slabs of small blocks, which handles come from and which stay.
std::size_t held_on(Device device) {
  const std::size_t slabs = device.is_cpu() ? detail::PoolStore::get().usage().reserved : 0;
  return memory_stats(device).reserved - slabs;
}

Tensor bytes(std::int64_t count, Device device) { return Tensor::allocate({count}, u8, device); }

// Allocates and lets go, over and over, as a step does; the addresses, in order.
std::vector<const void*> addresses_of_step(Device device) {
  std::mt19937 random(7);
  std::vector<const void*> addresses;
  std::vector<Tensor> kept;
  for (int i = 0; i < 400; ++i) {
    const std::int64_t most = i % 40 == 0 ? 5 * MiB : i % 5 == 0 ? 300 * KiB : 2 * KiB;
    kept.push_back(bytes(1 + static_cast<std::int64_t>(random()) % most, device));
    addresses.push_back(kept.back().raw_data());
    if (kept.size() < 12) continue;
    std::swap(kept[random() % kept.size()], kept.back());
    kept.pop_back();
  }
  return addresses;
}

void check_scope(Device device) {
  empty_cache(device);
  const MemoryStats before = memory_stats(device);
  const std::size_t held_before = held_on(device);
  const MemoryPoolId pool = make_memory_pool(device);
  CHECK(memory_pool_bytes(device, pool) == 0);
  Tensor kept;
  const void* gone = nullptr;
  {
    const MemoryPoolGuard scope(device, pool);
    kept = bytes(100, device);
    const Tensor large = bytes(3 * MiB, device);
    gone = large.raw_data();
    CHECK(memory_stats(device).in_use >= before.in_use + 100 + 3 * MiB);
    CHECK(memory_stats(device).in_use <= before.in_use + 4 * MiB);
    CHECK(memory_stats(device).requests == before.requests + 2);
  }
  const std::size_t held = memory_pool_bytes(device, pool);
  CHECK(held >= 3 * MiB + 100);
  CHECK(held_on(device) == held_before + held);
  CHECK(memory_stats(device).cached >= before.cached + 3 * MiB);
  CHECK(memory_stats(device).releases == before.releases + 1);
  {
    const Tensor common = bytes(3 * MiB, device);  // the pool's memory is free, and nobody else's
    CHECK(common.raw_data() != gone);
  }
  empty_cache(device);
  CHECK(memory_pool_bytes(device, pool) == held);
  fill_bytes(kept.raw_data(), device, 5, 100);  // outlives the scope,
  release_memory_pool(device, pool);            // and the pool
  CHECK(memory_pool_bytes(device, pool) >= 100);
  std::thread([t = std::exchange(kept, {})] {}).join();  // and its thread
  empty_cache(device);
  CHECK(memory_pool_bytes(device, pool) == 0);
  CHECK(held_on(device) == held_before);
  CHECK(memory_stats(device).in_use == before.in_use);
  release_memory_pool(device, pool);  // does nothing
}

void check_same_addresses(Device device) {
  const MemoryPoolId pool = make_memory_pool(device);
  {
    const MemoryPoolGuard scope(device, pool);
    const std::vector<const void*> first = addresses_of_step(device);
    const MemoryStats warm = memory_stats(device);
    for (int again = 0; again < 3; ++again) CHECK(addresses_of_step(device) == first);
    CHECK(memory_stats(device).allocations == warm.allocations);
    CHECK(memory_stats(device).frees == warm.frees);
    CHECK(memory_stats(device).in_use == warm.in_use);
  }
  release_memory_pool(device, pool);
  CHECK(memory_pool_bytes(device, pool) == 0);
}

void check_threads(Device device) {
  const MemoryPoolId pools[2] = {make_memory_pool(device), make_memory_pool(device)};
  const std::size_t before = memory_stats(device).in_use;
  std::atomic<int> broken{0};
  struct Slot {
    std::mutex mutex;
    Tensor tensor;
    int mark = 0;
  };
  std::vector<Slot> slots(32);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      // Two threads share a pool, one uses none, and all let go of what the others have made.
      const MemoryPoolGuard scope(device, t < 3 ? pools[t / 2] : 0);
      std::mt19937 random(static_cast<unsigned>(t));
      for (int round = 0; round < 1000; ++round) {
        Tensor fresh =
            bytes(1 + static_cast<std::int64_t>(random() % (round % 50 == 0 ? 3 << 20 : 5000)), device);
        const int mark = static_cast<int>(random() % 256);
        if (device.is_cpu()) std::memset(fresh.raw_data(), mark, static_cast<std::size_t>(fresh.numel()));
        Slot& slot = slots[random() % slots.size()];
        {
          const std::lock_guard lock(slot.mutex);
          std::swap(slot.tensor, fresh);
          const int was = std::exchange(slot.mark, mark);
          if (!device.is_cpu() || !fresh.defined()) continue;
          const auto* data = fresh.data<std::uint8_t>();
          if (data[0] != was || data[fresh.numel() - 1] != was) ++broken;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  slots.clear();
  CHECK(broken.load() == 0);
  CHECK(memory_stats(device).in_use == before);
  for (const MemoryPoolId pool : pools) {
    CHECK(memory_pool_bytes(device, pool) > 0);
    release_memory_pool(device, pool);
    CHECK(memory_pool_bytes(device, pool) == 0);
  }
}

}  // namespace

TEST_CASE("memory pool: its blocks are nobody else's, outlive scope, pool and thread, and go back") {
  check_scope(cpu);
}
TEST_CASE("memory pool: a repeated step finds the same addresses and takes nothing from the system") {
  check_same_addresses(cpu);
}
TEST_CASE("memory pool: threads share pools and let go of each other's tensors") { check_threads(cpu); }

TEST_CASE("memory pool: the same on a GPU", "[cuda]") {
  check_scope(cuda(0));
  check_same_addresses(cuda(0));
  check_threads(cuda(0));
}

TEST_CASE("memory pool: scopes nest, and are their thread's alone") {
  const MemoryPoolId outer = make_memory_pool(cpu), inner = make_memory_pool(cpu);
  const auto takes_from = [&](MemoryPoolId pool) {
    const std::size_t in_use = memory_stats(cpu).in_use, outers = memory_pool_bytes(cpu, outer),
                      inners = memory_pool_bytes(cpu, inner);
    const Tensor t = bytes(20 * MiB, cpu);
    return memory_stats(cpu).in_use > in_use && (memory_pool_bytes(cpu, outer) > outers) == (pool == outer) &&
           (memory_pool_bytes(cpu, inner) > inners) == (pool == inner);
  };
  {
    const MemoryPoolGuard a(cpu, outer);
    {
      const MemoryPoolGuard b(cpu, inner);
      CHECK(takes_from(inner));
      const MemoryPoolGuard none(cpu, 0);
      CHECK(takes_from(0));
    }
    CHECK(takes_from(outer));
    bool elsewhere = false;
    std::thread([&] { elsewhere = takes_from(0); }).join();
    CHECK(elsewhere);
  }
  CHECK(takes_from(0));
  release_memory_pool(cpu, outer);
  release_memory_pool(cpu, inner);
}

TEST_CASE("memory pool: a scope of a pool that is not there is an error, and changes nothing") {
  const MemoryPoolId pool = make_memory_pool(cpu);
  release_memory_pool(cpu, pool);
  CHECK_THROWS_AS(MemoryPoolGuard(cpu, pool), ValueError);
  CHECK_THROWS_WITH(MemoryPoolGuard(cpu, pool), Contains("[MemoryPoolGuard] cpu has no memory pool") &&
                                                    Contains("make_memory_pool(device)"));
  CHECK(detail::thread_memory_pool(0) == 0);
  CHECK_THROWS_AS(make_memory_pool(cuda(100)), DeviceError);
  CHECK_THROWS_AS(memory_pool_bytes(cuda(100), pool), DeviceError);
  CHECK_THROWS_AS(MemoryPoolGuard(cuda(100), pool), DeviceError);
}

TEST_CASE("memory pool: released within its scope, it gives back what the scope still takes") {
  empty_cache(cpu);
  const std::size_t held = held_on(cpu);
  const MemoryPoolId pool = make_memory_pool(cpu);
  {
    const MemoryPoolGuard scope(cpu, pool);
    const Tensor before = bytes(MiB, cpu);
    release_memory_pool(cpu, pool);
    { const Tensor after = bytes(9 * MiB, cpu); }
    CHECK(memory_pool_bytes(cpu, pool) < 9 * MiB);
  }
  CHECK(memory_pool_bytes(cpu, pool) == 0);
  {
    const MemoryPoolId other = make_memory_pool(cpu);
    const MemoryPoolGuard scope(cpu, other);
    release_memory_pool(cpu, other);  // before its first block
    CHECK_NOTHROW(bytes(MiB, cpu));
  }
  empty_cache(cpu);
  CHECK(held_on(cpu) == held);
}

TEST_CASE("memory pool: running out in it is the allocator's error, and passes") {
  const MemoryPoolId pool = make_memory_pool(cpu);
  {
    const MemoryPoolGuard scope(cpu, pool);
    CHECK_THROWS_AS(bytes(std::int64_t{1} << 50, cpu), OutOfMemoryError);
    empty_cache(cpu);
    Allocator& allocator = current_allocator(cpu);
    allocator.set_limit(memory_stats(cpu).reserved + 4 * MiB);
    CHECK_THROWS_WITH(bytes(8 * MiB, cpu),
                      Contains("out of memory on cpu: requested 8.00 MiB") && Contains("limit"));
    CHECK_NOTHROW(bytes(MiB, cpu));
    CHECK(memory_pool_bytes(cpu, pool) == 2 * MiB);
    allocator.set_limit(0);
  }
  release_memory_pool(cpu, pool);
}

TEST_CASE("memory pool: allocators that wrap the CPU's serve it too") {
  const MemoryPoolId pool = make_memory_pool(cpu);
  auto counting = std::make_shared<testing::FailingAllocator>(allocator(cpu));
  Tensor t;
  {
    const AllocatorGuard guard(cpu, counting);
    const MemoryPoolGuard scope(cpu, pool);
    t = bytes(MiB, cpu);
  }
  CHECK(counting->live_blocks() == 1);
  CHECK(memory_pool_bytes(cpu, pool) == 2 * MiB);
  release_memory_pool(cpu, pool);
  t = {};
  CHECK(counting->live_blocks() == 0);
  CHECK(memory_pool_bytes(cpu, pool) == 0);
}

TEST_CASE("a storage's number is its own, also where its address comes again") {
  Tensor a = bytes(64, cpu), b = bytes(64, cpu);
  const std::uint64_t first = a.impl()->storage->id();
  CHECK(first != 0);
  CHECK(a.impl()->storage->id() == first);
  CHECK(b.impl()->storage->id() != first);
  const Storage* const at = a.impl()->storage.get();
  a = {};
  const Tensor c = bytes(64, cpu);
  if (c.impl()->storage.get() == at) CHECK(c.impl()->storage->id() != first);
  std::vector<std::uint64_t> seen(8);  // threads that ask at once get one answer
  std::vector<std::thread> threads;
  for (std::uint64_t& id : seen) threads.emplace_back([&] { id = c.impl()->storage->id(); });
  for (std::thread& thread : threads) thread.join();
  CHECK(seen == std::vector<std::uint64_t>(8, c.impl()->storage->id()));
}
