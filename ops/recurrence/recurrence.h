#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/number.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// The parameters of one layer in one direction, as PyTorch has them: w_ih [G H, I], w_hh [G H, H] and the biases [G H],
/// either of which may be undefined. The G gates lie one below the other: G = 1 for rnn, 3 for gru (r, z, n), 4 for lstm
/// (i, f, g, o).
struct RecurrentWeights {
  Tensor w_ih, w_hh;
  Tensor b_ih = {}, b_hh = {};
};

struct RecurrenceOptions {
  /// i64 [B], on x's device: how many steps of each sequence count. Steps behind them must be finite, change nothing, and
  /// give an output of 0. A number below 1 counts as 0, one above T as T. Undefined: all sequences are T steps long.
  Tensor lengths = {};
  /// The steps are made from the last one to the first; `output` stays in the order of x.
  bool reverse = false;
};

struct Recurrence {
  /// [T, B, H]: the state after each step.
  Tensor output;
  /// [B, H]: the state after the last step of each sequence.
  Tensor h;
  /// lstm's memory after that step, [B, H]; undefined of the others.
  Tensor c = {};
};

/// One layer of a recurrent network in one direction, over a whole sequence: x is [T, B, I] with T >= 1, h0 (and c0)
/// [B, H], undefined for zeros; all of one floating dtype. With p = x_t w_ih^T + b_ih, u = h w_hh^T + b_hh, h the state
/// before step t and h' the one after it, and the sigmoid s:
///
///     rnn:   h' = tanh(p + u), or max(p + u, 0) where `relu`
///     gru:   r, z = s(p + u);  n = tanh(p_n + r u_n);  h' = (1 - z) n + z h
///     lstm:  i, f, o = s(p + u);  g = tanh(p_g + u_g);  c' = f c + i g;  h' = o tanh(c')
///
/// as torch.nn.RNN, GRU and LSTM (Elman 1990, Cho et al. 2014, Hochreiter and Schmidhuber 1997). One op: x is projected
/// by one product for all steps, the steps are made by one product and one kernel each, and each weight's gradient is one
/// product again. 16-bit types are computed in f32; the gates are kept in x's dtype for the gradient.
///
/// Throws ShapeError where the shapes do not fit, DTypeError, DeviceError.
CT_API Recurrence rnn(const Tensor& x, const Tensor& h0, const RecurrentWeights& weights,
                      const RecurrenceOptions& options = {}, Flag relu = false);
CT_API Recurrence gru(const Tensor& x, const Tensor& h0, const RecurrentWeights& weights,
                      const RecurrenceOptions& options = {});
CT_API Recurrence lstm(const Tensor& x, const Tensor& h0, const Tensor& c0, const RecurrentWeights& weights,
                       const RecurrenceOptions& options = {});

}  // namespace ct
