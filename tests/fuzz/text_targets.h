#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

// Work that a tokenizer's file asks for: patterns and chains of normalizers that a fuzzer makes, on texts
// that it makes. Time and memory must be linear in the input; else the program ends.

namespace ct::fuzz {

/// The first byte says how the others are read: as choices (pattern_generator.h), or, from 0x80 on, as a
/// pattern, the byte 0x1e and a text. With 0x7f and 0xff the text may be long, and take all the steps that it
/// has a right to.
bool match_pattern(std::span<const std::byte> input);
std::vector<std::string> pattern_seeds();

/// All bytes are choices of a file and a text.
bool run_normalizers(std::span<const std::byte> input);
std::vector<std::string> normalizer_seeds();

}  // namespace ct::fuzz
