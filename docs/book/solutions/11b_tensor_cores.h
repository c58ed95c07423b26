#pragma once

namespace answer {

/// Exclusive or with the row's number. For one row it permutes the chunks, as different chunks stay different; for one chunk
/// different rows give different places. (So does chunk + row, modulo 8.)
inline int place(int row, int chunk) { return chunk ^ (row & 7); }

}  // namespace answer
