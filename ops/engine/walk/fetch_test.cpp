#include <algorithm>
#include <cstdint>
#include <vector>

#include <cotangent/core/device/in_call.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/engine/walk/fetch.h>

#include "tests/catch.h"

using namespace ct;

namespace {

// Bytes that begin at any address, of any number, from others that do; the last is left alone.
void check_fetch(Device device) {
  constexpr std::int64_t kRoom = 70000;
  const Tensor from = remainder(arange(kRoom), 251).to(u8).to(device);
  struct Part {
    std::int64_t to, source, bytes;
  };
  for (const std::vector<Part>& parts :
       {std::vector<Part>{{0, 0, 64}},
        std::vector<Part>{
            {0, 16, 4096 * 3 + 16}, {20000, 4, 12}, {20016, 33, 1}, {20032, 5, 5000}, {30002, 2, 4099}},
        std::vector<Part>{
            {1, 0, 33}, {64, 0, 16}, {96, 0, 4}, {112, 0, 3}, {128, 0, 1}, {160, 8, 40}, {256, 12, 68000}}}) {
    Tensor to = zeros({kRoom}, {.dtype = u8, .device = device});
    std::vector<std::int64_t> addresses;
    std::vector<std::uint8_t> want(static_cast<std::size_t>(kRoom));
    const auto values = from.to(cpu).to_vector<std::uint8_t>();
    char* const base = static_cast<char*>(to.raw_data());
    for (const Part& p : parts) {
      addresses.push_back(reinterpret_cast<std::intptr_t>(static_cast<char*>(from.raw_data()) + p.source));
      std::copy_n(values.begin() + p.source, p.bytes, want.begin() + p.to);
    }
    char* const last = base + kRoom - 16;
    addresses.push_back(reinterpret_cast<std::intptr_t>(last));
    const auto slots = from_vector(addresses, {static_cast<std::int64_t>(addresses.size())}).to(device);
    const auto* const slot = static_cast<const std::uint64_t*>(slots.raw_data());
    std::vector<Fetch> list;
    for (std::size_t i = 0; i < parts.size(); ++i)
      list.push_back({base + parts[i].to, parts[i].bytes, slot + i});
    list.push_back({last, 16, slot + parts.size()});
    {
      const detail::InCall inside;
      functions_of(kernel_tables::fetching, device).fetch(list);
    }
    CHECK((to.to(cpu).to_vector<std::uint8_t>() == want));
  }
}

}  // namespace

TEST_CASE("tensors are fetched from addresses in memory", "[fetch]") { check_fetch(cpu); }
TEST_CASE("tensors are fetched from addresses in memory on a GPU", "[fetch][cuda]") { check_fetch(cuda(0)); }
