// The same parsers under libFuzzer: one program per target, chosen by CT_FUZZ_TARGET. Deep JSON needs long inputs:
// -max_len=1048576.

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>

#include "tests/fuzz/json_mutator.h"
#include "tests/fuzz/targets.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::mt19937_64 random(seed);
  if (random() % 8 != 0) return LLVMFuzzerMutate(data, size, max_size);
  std::string input(reinterpret_cast<const char*>(data), size);
  ct::fuzz::change_json(input, random);
  if (input.empty() || input.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, input.data(), input.size());
  return input.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const ct::fuzz::Target& target : ct::fuzz::targets())
    if (std::string_view(target.name) == CT_FUZZ_TARGET) target.run(std::as_bytes(std::span(data, size)));
  return 0;
}
