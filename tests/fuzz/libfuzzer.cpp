// The same parsers under libFuzzer: one program per target, chosen by CT_FUZZ_TARGET. Deep JSON needs long inputs:
// -max_len=1048576.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/json_mutator.h"
#include "tests/fuzz/targets.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

const ct::fuzz::Target& target() {
  static const ct::fuzz::Target& found = *std::ranges::find_if(
      ct::fuzz::targets(),
      [](const ct::fuzz::Target& t) { return std::string_view(t.name) == CT_FUZZ_TARGET; });
  return found;
}

const std::vector<std::string>& seeds() {
  static const std::vector<std::string> made = target().seeds();
  return made;
}

// An input this long has parts that are deep or long on purpose, and takes a thousand times as long as others.
constexpr std::size_t kLong = 16384;
// A long input that the engine chooses is changed once in so many times; else a well-formed one is.
constexpr unsigned kLongOnceIn = 64;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  seeds();  // now, since making them draws random numbers, and a target may see to it that nothing else does
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  if (size > kLong && seed / 8 % kLongOnceIn != 0) {
    const std::string& chosen = seeds()[seed / 512 % seeds().size()];
    size = std::min(chosen.size(), max_size);
    std::memcpy(data, chosen.data(), size);
  }
  if (seed % 8 == 0) {
    std::mt19937_64 random(seed);
    std::string input(reinterpret_cast<const char*>(data), size);
    ct::fuzz::change_json(input, random);
    const bool same = input.size() == size && std::memcmp(input.data(), data, size) == 0;
    if (!same && !input.empty() && input.size() <= max_size) {
      std::memcpy(data, input.data(), input.size());
      return input.size();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  target().run(std::as_bytes(std::span(data, size)));
  return 0;
}
