#include <cotangent/ops/testing/allocators.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <cotangent/core/tensor/tensor.h>

#include "tests/catch.h"

using namespace ct;
using Catch::Matchers::Contains;

namespace {

const Stream host;

}  // namespace

TEST_CASE("allocator: the poisoning allocator leaves nothing to read") {
  const AllocatorGuard guard(cpu, std::make_shared<testing::PoisoningAllocator>(allocator(cpu)));
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{24}, std::size_t{4096}, std::size_t{3} << 20}) {
    for (int again = 0; again < 2; ++again) {
      auto* block = static_cast<unsigned char*>(current_allocator(cpu).allocate(bytes, host));
      CHECK(std::count(block, block + bytes, 255) == static_cast<std::ptrdiff_t>(bytes));
      std::memset(block, 0, bytes);
      current_allocator(cpu).deallocate(block, bytes, host);
    }
    const Tensor t = Tensor::allocate({static_cast<std::int64_t>(bytes)}, u8, cpu);
    CHECK(std::count(t.data<std::uint8_t>(), t.data<std::uint8_t>() + bytes, 255) ==
          static_cast<std::ptrdiff_t>(bytes));
  }
}

TEST_CASE("allocator: the failing allocator fails exactly the chosen calls") {
  testing::FailingAllocator failing(allocator(cpu), 3, 2);
  std::vector<void*> blocks;
  for (int call = 1; call <= 6; ++call) {
    if (call == 3 || call == 4) {
      CHECK_THROWS_WITH(failing.allocate(64, host), Contains("[allocator] out of memory on cpu") &&
                                                        Contains("call " + std::to_string(call)));
    } else {
      blocks.push_back(failing.allocate(64, host));
    }
  }
  CHECK(failing.calls() == 6);
  CHECK(failing.live_blocks() == 4);
  for (void* p : blocks) failing.deallocate(p, 64, host);
  CHECK(failing.live_blocks() == 0);
  failing.fail_at(1);
  CHECK_THROWS_AS(failing.allocate(1, host), OutOfMemoryError);
}
