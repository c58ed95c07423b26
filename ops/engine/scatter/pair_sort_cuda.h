#pragma once

#include <cstddef>

// The radix sort of CUDA. For .cu files.

namespace ct::scatter_impl {

/// n pairs (keys[i], places[i]) of 32 bits each, of which sort() orders the keys; the places of equal keys keep their
/// order. Longer keys are sorted a word at a time, from the last word to the first. CUB does it.
class PairSort {
 public:
  explicit PairSort(const char* op, unsigned n);

  /// Size of the memory that place() takes.
  std::size_t bytes() const { return 4 * array_bytes_ + sort_bytes_; }
  /// Lays the arrays out in `memory` and returns the address behind them.
  char* place(void* memory);
  /// Sorts by the lowest `bits` (1 to 32) bits of the keys. Call keys() and places() again afterwards: the pointers change.
  void sort(int bits);

  unsigned size() const { return n_; }
  unsigned* keys() const { return keys_[0]; }
  unsigned* places() const { return places_[0]; }

 private:
  const char* op_;
  unsigned n_;
  std::size_t array_bytes_, sort_bytes_ = 0;
  unsigned *keys_[2] = {}, *places_[2] = {};
  void* memory_ = nullptr;
};

}  // namespace ct::scatter_impl
