#pragma once

#include <cache.h>

#include <algorithm>
#include <cstddef>

namespace answer {

/// Blocks of 16 x 16: 16 lines of `from` and 16 of `to`, each of which is used whole while the block lasts.
inline void transpose(book::WatchedMatrix& from, book::WatchedMatrix& to) {
  constexpr std::size_t side = 16;
  for (std::size_t i0 = 0; i0 < from.rows; i0 += side)
    for (std::size_t j0 = 0; j0 < from.columns; j0 += side)
      for (std::size_t i = i0; i < std::min(from.rows, i0 + side); ++i)
        for (std::size_t j = j0; j < std::min(from.columns, j0 + side); ++j) to(j, i) = from(i, j);
}

}  // namespace answer
