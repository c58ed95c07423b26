#pragma once

#include <cache.h>

#include <cstddef>

// A transposition that fetches few lines.

namespace answer {

/// to(j, i) = from(i, j), for from [rows, columns] and to [columns, rows].
inline void transpose(book::WatchedMatrix& from, book::WatchedMatrix& to) {
  for (std::size_t i = 0; i < from.rows; ++i)
    for (std::size_t j = 0; j < from.columns; ++j) to(j, i) = from(i, j);  // yours: not row by row
}

}  // namespace answer
