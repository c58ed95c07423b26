#pragma once

namespace answer {

/// Around: each block begins at its own diagonal. Query i is met by the blocks i, i - 1, ..., 0, blocks - 1, ..., i + 1, in this order,
/// whatever each step takes. With a mask the walk ends where it would begin anew.
inline int query(int j, int step, int blocks, bool mask) { return mask ? j + step : (j + step) % blocks; }

}  // namespace answer
