#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>  // says so below C++20

namespace ct {

/// The key of one draw: which stream, and the how-manieth draw of it. Plain data, passed to kernels by value.
struct GeneratorState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  /// In a recording of calls: where a kernel reads the stream and the first draw at the time it runs, in memory of the
  /// device that draws. seed is not read then, and offset counts from live->offset. Null otherwise.
  const GeneratorState* live = nullptr;

  /// The key by value. Kernels take it once, before their first draw; the code that launches them on a GPU can't, as `live`
  /// is not the host's to read.
  CT_HD GeneratorState now() const {
    return live ? GeneratorState{live->seed, live->offset + offset} : *this;
  }
  friend bool operator==(const GeneratorState&, const GeneratorState&) = default;
};

}  // namespace ct
