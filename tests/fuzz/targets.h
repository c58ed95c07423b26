#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

// The parsers of files, each as a function of bytes. A parser may refuse its input with ct::Error; anything
// else that leaves it, and any memory asked for that the input can't fill, is a fault.

namespace ct::fuzz {

struct Target {
  const char* name;
  /// Whether the input was accepted.
  bool (*run)(std::span<const std::byte> input);
  /// Well-formed inputs to start from.
  std::vector<std::string> (*seeds)();
  /// How many times slower than others it is: it writes its input to files first.
  int slower = 1;
};

std::span<const Target> targets();

}  // namespace ct::fuzz
