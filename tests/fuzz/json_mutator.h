#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace ct::fuzz {

/// Changes what a random change of bytes does not reach in the JSON of an input: values become others (nested
/// 150,000 levels deep at most, long texts, numbers at their limits), members are repeated, NUL bytes and bytes
/// that are not UTF-8 get into texts. The JSON may be the input itself, one of the files in it, or the header of
/// a safetensors file, whose length is put right. An input without JSON is left as it is.
void change_json(std::string& input, std::mt19937_64& random);

}  // namespace ct::fuzz
