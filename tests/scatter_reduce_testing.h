#pragma once

#include <cotangent/core/tensor/tensor.h>

// Shared by the tests of scatter_reduce and index_reduce.

namespace ct::testing {

inline constexpr ScatterReduce kReductions[] = {ScatterReduce::sum, ScatterReduce::prod, ScatterReduce::mean,
                                                ScatterReduce::amax, ScatterReduce::amin};
inline const char* word(ScatterReduce kind) {
  constexpr const char* kWords[] = {"sum", "prod", "mean", "amax", "amin"};
  return kWords[static_cast<int>(kind)];
}

struct Outcome {
  Tensor y, dx, ds;
};
// The result and both gradients, for the cotangent g.
template <class F>
Outcome outcome(F f, const Tensor& x, const Tensor& source, const Tensor& g) {
  Tensor a = x.clone().set_requires_grad(), s = source.clone().set_requires_grad();
  const Tensor y = f(a, s);
  y.backward(g);
  return {y.detach(), a.grad(), s.grad()};
}

}  // namespace ct::testing
