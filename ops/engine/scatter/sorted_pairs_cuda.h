#pragma once

#include <cstddef>

#include <cotangent/core/cuda/workspace.h>
#include <cotangent/ops/engine/scatter/pair_sort_cuda.h>
#include <cotangent/ops/engine/scatter/scatter.h>

// The places of a selection in the order of the rows that they name. For .cu files.

namespace ct::scatter_impl {

/// Runs of more pairs than this are folded tile by tile before, so that no row holds up a single thread or warp.
inline constexpr unsigned kTile = 64;

/// The pairs (row, place that names it), sorted by row, in memory that is theirs, and `more` bytes behind it. Places that
/// name no row, or the one that is left out, have the key `rows`, behind all others. An index out of range is reported for
/// `site`, if there is one.
struct SortedPairs : PairSort {
  unsigned rows;
  gpu::Workspace workspace;
  char* more;

  SortedPairs(const char* op, const IndexSite* site, const Selection& s, std::size_t more_bytes);
};

}  // namespace ct::scatter_impl
