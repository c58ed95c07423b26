#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>  // says so below C++20

namespace ct {

/// The key of one draw: which stream, and the how-manieth draw of it. Plain data, passed to kernels by value;
/// a captured graph may as well keep it in device memory and advance offset there.
struct GeneratorState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  friend bool operator==(const GeneratorState&, const GeneratorState&) = default;
};

}  // namespace ct
