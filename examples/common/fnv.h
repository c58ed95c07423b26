#pragma once

#include <cstdint>

/// FNV-1a over whole words in place of bytes: tells data apart, and keeps no secret.
/// http://www.isthe.com/chongo/tech/comp/fnv/
struct Fnv {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  void add(std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3ull; }
};
