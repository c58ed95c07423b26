#pragma once

// Tiles in shared memory whose reads meet no bank twice.

namespace answer {

/// Place where a tile of 8 rows of 128 bytes has chunk `chunk` (0 to 7, 16 bytes each) of row `row`: the number of one
/// of the row's eight places.
inline int place(int row, int chunk) {
  (void)row;
  return chunk;  // yours: then the same chunk of all rows lies in the same four banks
}

}  // namespace answer
