#pragma once

#include <chain.h>

// The value in the middle is computed from x and held; the later half goes back from it, with a problem of half the size, and so
// does the earlier half from x, when the middle is not needed any more. At each of log2 n depths one value is held. A chain of n
// costs n / 2 layers forward and twice what half of it does, so n / 2 at each depth: n log2(n) / 2 in all. recompute() inside of
// recompute() is this walk.
// With a number of values allowed, one cuts elsewhere than in the middle (Griewank 1992): ten do for 1001 layers, the binomial
// coefficient of 14 and 4, none of which is computed more than four times.
// Half of the batch, or the whole one and recomputing? Recomputing costs a third for sure. Half of the batch costs nothing as long
// as products of that size still fill the GPU (chapter 11), and some half of the rate where they do not.

namespace answer {

using book::Chain;

inline double back(Chain& chain, const Chain::Value& x, int first, int last, double g) {
  if (last - first == 1) return chain.backward(first, x, g);
  const int middle = first + (last - first + 1) / 2;
  {
    Chain::Value at = chain.forward(first, x);
    for (int i = first + 1; i < middle; ++i) at = chain.forward(i, at);
    g = back(chain, at, middle, last, g);
  }
  return back(chain, x, first, middle, g);
}

}  // namespace answer
