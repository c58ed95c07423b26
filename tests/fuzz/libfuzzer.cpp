// The same parsers under libFuzzer: one program per target, chosen by CT_FUZZ_TARGET.

#include <cstdint>
#include <string_view>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const ct::fuzz::Target& target : ct::fuzz::targets())
    if (std::string_view(target.name) == CT_FUZZ_TARGET) target.run(std::as_bytes(std::span(data, size)));
  return 0;
}
