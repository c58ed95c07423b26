#pragma once

#include <cstdint>

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/gemm/product.h>

// Shared by the three ops: the walk over the steps, which knows neither the cell nor the device.

namespace ct::recurrence {

struct Attrs {
  bool reverse, relu;
};

/// Inputs: 0 x, 1 w_ih, 2 w_hh, 3 b_ih, 4 b_hh, 5 h0, 6 lengths, 7 c0 (lstm's alone). Outputs: 0 output, 1 h, 2 trace,
/// 3 c (lstm's alone). The trace [T, B, (kept + 1) H] holds a step's saved values for the gradient: those of its cell, and
/// the state before the step. It has the projection of x in its first columns until the step is made.
struct Cell {
  int gates, kept;
  bool apart;   // the cotangents of p and of u differ
  bool memory;  // there is a c beside h

  int columns() const { return kept + 1; }
};
template <class C>
inline constexpr Cell kCell{C::kGates, C::kKept, C::kApart, C::kMemory};

/// Step t of some sequences of the batch, rows here, as the kernels of a device get it. Matrices lie without gaps. u, c, dh
/// and dc are of the accumulate type, the others of `dtype`.
struct Step {
  DType dtype = DType::f32;
  bool relu = false;
  std::int64_t rows = 0, hidden = 0, t = 0;
  const std::int64_t* lengths = nullptr;
  void* trace = nullptr;
  // Forward. In: u without its bias, the biases, h and c before the step. Out: h and c after it, output, trace.
  const void *u = nullptr, *b_ih = nullptr, *b_hh = nullptr;
  void *h = nullptr, *c = nullptr, *output = nullptr;
  // Backward. In: the trace, the cotangent of output (or null), dh and dc of the states after the step. Out: dp, du, and
  // dh and dc of the states before it, but for what u brings to dh.
  const void* g = nullptr;
  void *dh = nullptr, *dc = nullptr, *dp = nullptr, *du = nullptr;

  /// A sequence that has ended before this step keeps its state.
  CT_HD bool ended(std::int64_t row) const { return lengths != nullptr && t >= lengths[row]; }
};

/// Functions of a device.
struct Steps {
  const gemm::Backend& backend;
  std::int64_t rows;  // that one thread of the host takes through all steps
  void (*forward)(const Step&);
  void (*backward)(const Step&);
};

void forward(const Forward& f, const Cell& cell, const Steps& steps);
void backward(const Backward& b, const Cell& cell, const Steps& steps);

}  // namespace ct::recurrence

/// The table of a device, out of its forward_DEVICE<C> and backward_DEVICE<C>.
#define CT_RECURRENCE_KERNELS(device)                                                                       \
  {"rnn", recurrence::forward_##device<recurrence::Rnn>, recurrence::backward_##device<recurrence::Rnn>},   \
      {"gru", recurrence::forward_##device<recurrence::Gru>,                                                \
       recurrence::backward_##device<recurrence::Gru>},                                                     \
  {                                                                                                         \
    "lstm", recurrence::forward_##device<recurrence::Lstm>, recurrence::backward_##device<recurrence::Lstm> \
  }
