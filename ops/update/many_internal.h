#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <cotangent/core/op/op_call.h>
#include <cotangent/core/tensor/tensor.h>

// One pass over many tensors at once. A parameter, its gradient and its moments are one entry of a table; the table is cut
// into chunks across all entries, and chunks are what threads and GPU blocks work on.

namespace ct::update::many {

inline constexpr int kMaxMoments = 3;

/// A tensor that a call writes, with those that it reads beside it.
struct Entry {
  void* param = nullptr;  // or its f32 master
  void* grad = nullptr;
  void* copy = nullptr;  // the 16-bit parameter that is rounded from its master
  void* moments[kMaxMoments] = {};
  std::int64_t count = 0;
  std::int64_t* step = nullptr;  // how many steps it has made; null where nobody counts
  double scale[2] = {1, 1};      // numbers that differ between entries
};

// Lists of the calling thread, given empty: they keep their memory from one call to the next, so that a step allocates
// nothing.
std::vector<const Tensor*>& scratch_inputs();
std::vector<Entry>& scratch_entries();
/// Starts of entries on the line that the CPU cuts into chunks.
std::vector<std::int64_t>& scratch_starts();
/// Memory for a call with so many entries and inputs. A step asks for it before its first change: it is made as a whole or
/// not at all, also when memory runs out.
void reserve_scratch(std::size_t entries, std::size_t inputs);

/// Calls run(dtype, entries) for each dtype of `tensors`, in the order of their first: the entries' `grad` and `count`
/// are set.
template <class Run>
void by_dtype(std::span<const Tensor* const> tensors, Run run) {
  std::uint32_t seen = 0;
  for (const Tensor* const first : tensors) {
    const DType dtype = first->dtype();
    if (seen >> static_cast<int>(dtype) & 1u) continue;
    seen |= 1u << static_cast<int>(dtype);
    std::vector<Entry>& entries = scratch_entries();
    for (const Tensor* const t : tensors) {
      if (t->dtype() != dtype) continue;
      Entry& e = entries.emplace_back();
      e.grad = t->raw_data();
      e.count = t->numel();
    }
    run(dtype, std::span<const Entry>(entries));
  }
}

}  // namespace ct::update::many
