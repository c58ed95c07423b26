#pragma once

// Turns that nobody waits for.

namespace answer {

/// The block of queries that block j of the keys adds to in its step-th step, j and step from 0 to blocks - 1. With a mask,
/// block j has only the queries j, j + 1, ..., blocks - 1, and as many steps. No two blocks may want one query at the same step.
inline int query(int j, int step, int blocks, bool mask) {
  (void)blocks;
  return mask ? j + step : step;  // yours: right with a mask; without one all begin at query 0
}

}  // namespace answer
