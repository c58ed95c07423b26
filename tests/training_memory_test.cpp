#include <cotangent/core/memory/allocator.h>
#include <cotangent/core/memory/pool_store_internal.h>

#include <malloc.h>
#include <unistd.h>

#include <fstream>

#include "tests/catch.h"
#include "tests/training_testing.h"

// Memory that a GPT's training takes from the system: none, once it has made a few steps.

using namespace ct;
using namespace ct::testing;

namespace {

std::int64_t resident_bytes() {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

struct Usage {
  MemoryStats device, host, pinned;
  std::size_t pool = 0;    // bytes of handles, nodes and small tensors in use
  std::size_t malloc = 0;  // bytes in use of everything else
  std::int64_t resident = 0;

  static Usage now(Device device) {
    const detail::PoolUsage pool = detail::PoolStore::get().usage();
    return {memory_stats(device),      memory_stats(cpu),    pinned_allocator().stats(),
            pool.reserved - pool.free, mallinfo2().uordblks, resident_bytes()};
  }
};

// Trains for `warm` batches, then for `batches` more, which must find all they need in what is there.
void check_takes_nothing(const Techniques& how, std::int64_t warm, std::int64_t batches) {
  if (CT_POOL_BYPASS) return;  // every block comes from the system, so that misuse is found
  manual_seed(8);
  TinyTraining training(how);
  Usage before, after;
  training.train(1 << 30, [&] {
    training.loss
        .item();  // a training looks at its loss now and then; the host does not run ahead without end
    if (training.seen == warm) before = Usage::now(how.device);
    if (training.seen < warm + batches) return true;
    after = Usage::now(how.device);
    return false;
  });
  CHECK(training.micro == 0);  // both times: gradients have the same state
  CHECK(warm % how.accumulate == 0);
  CHECK(after.device.allocations == before.device.allocations);
  CHECK(after.host.allocations == before.host.allocations);
  CHECK(after.pinned.allocations == before.pinned.allocations);
  CHECK(after.device.requests > before.device.requests + static_cast<std::uint64_t>(batches) * 20);
  // Workers may be a batch further or less; work that waits for a GPU may have a handle more than before, and
  // the GPU's driver has memory of its own.
  const std::size_t ahead = how.workers > 0 ? 64 << 10 : how.device.is_cuda() ? 4 << 10 : 0;
  CHECK(after.device.in_use <= before.device.in_use + ahead);
  CHECK(after.host.in_use <= before.host.in_use + ahead);
  CHECK(after.pool <= before.pool + ahead);
  CHECK(after.malloc <= before.malloc + (how.device.is_cuda() ? 1 << 20 : 4 << 10));
#ifndef __SANITIZE_THREAD__  // which keeps a record of its own
  CHECK(after.resident <= before.resident + (how.device.is_cuda() ? 16 << 20 : 1 << 20));
#endif
}

}  // namespace

TEST_CASE("after some steps a training takes nothing from the system", "[training][memory]") {
  const std::int64_t warm = 60, batches = 300;
  SECTION("f32") { check_takes_nothing({.width = 64}, warm, batches); }
  SECTION("bf16 by Autocast, recomputed") {
    check_takes_nothing({.autocast = bf16, .recompute = true, .width = 64}, warm, batches);
  }
  SECTION("f16 weights with masters and a scaler") {
    check_takes_nothing({.weights = f16, .width = 64}, warm, batches);
  }
}

TEST_CASE("recomputed blocks take less memory", "[training][memory]") {
  const auto peak = [](bool recompute) {
    manual_seed(9);
    TinyTraining training({.recompute = recompute, .accumulate = 100, .width = 64});
    const Tensor x = randint(0, TinyTraining::kVocabulary, {256, TinyTraining::kBlock});
    training.one_batch(x, x);  // makes the gradients
    const std::size_t before = memory_stats(cpu).in_use;
    reset_peak_stats(cpu);
    training.one_batch(x, x);
    return memory_stats(cpu).peak_in_use - before;
  };
  const std::size_t plain = peak(false), recomputed = peak(true);
  INFO(plain << " bytes at most, recomputed " << recomputed);
  CHECK(static_cast<double>(recomputed) < 0.65 * static_cast<double>(plain));  // one of two layers, and a bit
}

TEST_CASE("ten thousand steps take no more memory than the first", "[training][memory]") {
  check_takes_nothing({.autocast = bf16, .accumulate = 1}, 100, 10000);
}

TEST_CASE("after some steps a training on CUDA takes nothing from the system", "[training][memory][cuda]") {
  const std::int64_t warm = 60, batches = 300;
  SECTION("bf16 by Autocast") {
    check_takes_nothing({.autocast = bf16, .device = cuda(0), .workers = 1, .width = 64}, warm, batches);
  }
  SECTION("bf16 weights with masters, recomputed") {
    check_takes_nothing({.weights = bf16, .recompute = true, .device = cuda(0), .width = 64}, warm, batches);
  }
  SECTION("f16 by Autocast, with a scaler") {
    check_takes_nothing({.autocast = f16, .device = cuda(0), .workers = 1, .width = 64}, warm, batches);
  }
}

TEST_CASE("ten thousand steps on CUDA take no more memory than the first", "[training][memory][cuda]") {
  check_takes_nothing({.autocast = bf16, .accumulate = 1, .device = cuda(0)}, 100, 10000);
}
