#pragma once

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>

#include "bench/ladders/ladder.h"

// Ladders of gradients: the library's backward, alone, as what the rungs are held to and measured beside.

namespace ct::ladder {

/// Result of `make` for these inputs: made anew where they are others than at the last call. It holds them meanwhile, so
/// that no others take their place in memory, and is never freed.
template <class State>
State& kept(const Tensors& in, State (*make)(const Tensors&)) {
  static Tensors& of = *new Tensors;
  static State& state = *new State;
  if (of.empty() || of[0].raw_data() != in[0].raw_data()) {
    state = make(in);
    of = in;
  }
  return state;
}

/// The gradients of f at the first `count` inputs; the last input is the cotangent. f is called once, and its tape is walked by
/// each call.
template <Tensor (*f)(const Tensors&), std::size_t count>
Tensors gradients(const Tensors& in) {
  struct Taped {
    Tensors leaves;
    Tensor y;
  };
  const EnableGrad recorded;
  const Taped& taped = kept<Taped>(in, [](const Tensors& given) {
    Taped made;
    Tensors all(given.begin(), given.end() - 1);
    for (std::size_t i = 0; i < count; ++i) {
      all[i] = all[i].detach();
      made.leaves.push_back(all[i].set_requires_grad());
    }
    made.y = f(all);
    return made;
  });
  return grad({taped.y}, taped.leaves, {in.back()}, {.retain_graph = true});
}

}  // namespace ct::ladder
