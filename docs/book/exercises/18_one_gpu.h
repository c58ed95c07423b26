#pragma once

#include <chain.h>

#include <vector>

// The gradient of a chain of layers, with a handful of values held.

namespace answer {

using book::Chain;

/// Goes back through layers first, ..., last - 1, the first of which is given x: takes the cotangent g of the last one's y, and
/// returns that of x. last > first. chain.forward() computes a layer, chain.backward() needs the x that it was given.
inline double back(Chain& chain, const Chain::Value& x, int first, int last, double g) {
  // Keeps all of them. Yours: no more than about log2 of their number.
  std::vector<Chain::Value> inputs{x};
  for (int i = first; i + 1 < last; ++i) inputs.push_back(chain.forward(i, inputs.back()));
  for (int i = last; i-- > first; inputs.pop_back()) g = chain.backward(i, inputs.back(), g);
  return g;
}

}  // namespace answer
