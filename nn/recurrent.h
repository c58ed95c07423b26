#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/export.h>
#include <cotangent/nn/module.h>

namespace ct::nn {

struct RecurrentOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  /// True: x and output are [B, T, .]. False (PyTorch's default): [T, B, .].
  bool batch_first = false;
  /// Probability with which, in training, an element of a layer's output is dropped before the next layer.
  double dropout = 0;
  /// A second network goes from the last step to the first; their outputs lie side by side.
  bool bidirectional = false;
  DType dtype = DType::f32;
  Device device = cpu;
};
struct RNNOptions {
  std::int64_t num_layers = 1;
  /// "tanh" or "relu".
  std::string nonlinearity = "tanh";
  bool bias = true, batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
  DType dtype = DType::f32;
  Device device = cpu;
};

/// Result of an RNN or a GRU: `auto [output, h] = gru(x);`
struct RNNOutput {
  /// [T, B, D H] (batch_first: [B, T, D H]; without a batch [T, D H]), D the number of directions: the last layer's states.
  Tensor output;
  /// [L D, B, H] ([L D, H]): each layer's state after its last step, those of a layer's two directions side by side.
  Tensor h;
};
/// State that an LSTM hands from one call to the next; shapes as RNNOutput::h. Undefined tensors stand for zeros.
struct LSTMState {
  Tensor h, c;
};
/// `auto [output, state] = lstm(x);`
struct LSTMOutput {
  Tensor output;
  LSTMState state;
};

namespace detail {
enum class CellKind : std::uint8_t { rnn, gru, lstm };

/// Parameters of cells, as a layer's names go on: "weight_ih" + suffix [G H, I], "weight_hh" [G H, H], "bias_ih" and
/// "bias_hh" [G H], with G gates one below the other (rnn 1; gru 3: r, z, n; lstm 4: i, f, g, o), all drawn from
/// U(-1/sqrt(H), 1/sqrt(H)): PyTorch's names, shapes and initialisation.
struct CellParameters {
  Parameter w_ih, w_hh, b_ih, b_hh;
};

/// Base of RNN, GRU and LSTM: layers and directions.
class CT_API RecurrentLayers : public Module {
 public:
  /// Draws new values.
  void reset_parameters();
  std::int64_t input_size() const { return input_; }
  std::int64_t hidden_size() const { return hidden_; }

 protected:
  RecurrentLayers(CellKind kind, std::int64_t input_size, std::int64_t hidden_size,
                  const RNNOptions& options);
  LSTMOutput run(const Tensor& x, const LSTMState& state, const Tensor& lengths) const;
  /// Forward pass of layers without a memory.
  RNNOutput run(const Tensor& x, const Tensor& h0, const Tensor& lengths) const {
    LSTMOutput made = run(x, LSTMState{h0, {}}, lengths);
    return {std::move(made.output), std::move(made.state.h)};
  }

 private:
  CellKind kind_;
  std::int64_t input_, hidden_;
  RNNOptions options_;
  std::vector<CellParameters> cells_;  // by layer, then by direction
};

/// Base of the cells: one step.
class CT_API RecurrentCell : public Module {
 public:
  /// Draws new values.
  void reset_parameters();

 protected:
  RecurrentCell(CellKind kind, std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options);
  LSTMState run(const Tensor& x, const LSTMState& state) const;

 private:
  CellKind kind_;
  std::int64_t hidden_;
  bool relu_;
  CellParameters cell_;
};
}  // namespace detail

/// Layers of cells over a sequence; the formulas are those of rnn() in ops/recurrence/recurrence.h. Parameters
/// "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse", ..., "weight_ih_l1", ... as
/// torch.nn.RNN has them (detail::CellParameters). Throws ShapeError for sizes below 1, ValueError for num_layers below 1, a
/// dropout outside of [0, 1], another nonlinearity.
class CT_API RNN : public detail::RecurrentLayers {
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  /// x [T, B, I] (batch_first: [B, T, I]; without a batch [T, I]); h0 as RNNOutput::h, undefined for zeros. `lengths`, i64
  /// [B] on any device, is how many steps of each sequence count, as RecurrenceOptions::lengths: the outputs behind them
  /// are 0, and h is the state after the last one that counts, as with PyTorch's packed sequences. Throws ShapeError and
  /// DTypeError where x, state or lengths do not fit.
  RNNOutput forward(const Tensor& x, const Tensor& h0 = {}, const Tensor& lengths = {}) const {
    return run(x, h0, lengths);
  }
  RNNOutput operator()(const Tensor& x, const Tensor& h0 = {}, const Tensor& lengths = {}) const {
    return call(*this, x, h0, lengths);
  }
};

/// The same of gru().
class CT_API GRU : public detail::RecurrentLayers {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {});
  /// The same as RNN::forward().
  RNNOutput forward(const Tensor& x, const Tensor& h0 = {}, const Tensor& lengths = {}) const {
    return run(x, h0, lengths);
  }
  RNNOutput operator()(const Tensor& x, const Tensor& h0 = {}, const Tensor& lengths = {}) const {
    return call(*this, x, h0, lengths);
  }
};

/// The same of lstm().
class CT_API LSTM : public detail::RecurrentLayers {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {});
  /// The same as RNN::forward().
  LSTMOutput forward(const Tensor& x, const LSTMState& state = {}, const Tensor& lengths = {}) const {
    return run(x, state, lengths);
  }
  LSTMOutput operator()(const Tensor& x, const LSTMState& state = {}, const Tensor& lengths = {}) const {
    return call(*this, x, state, lengths);
  }
};

struct RNNCellOptions {
  bool bias = true;
  /// "tanh" or "relu".
  std::string nonlinearity = "tanh";
  DType dtype = DType::f32;
  Device device = cpu;
};
struct RecurrentCellOptions {
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu;
};

/// One step of rnn(): x [B, I] or [I] and h [B, H] or [H], undefined for zeros, to the next h. Parameters "weight_ih",
/// "weight_hh", "bias_ih", "bias_hh", else as RNN.
class CT_API RNNCell : public detail::RecurrentCell {
 public:
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options = {});
  Tensor forward(const Tensor& x, const Tensor& h = {}) const { return run(x, {h, {}}).h; }
  Tensor operator()(const Tensor& x, const Tensor& h = {}) const { return call(*this, x, h); }
};

/// One step of gru().
class CT_API GRUCell : public detail::RecurrentCell {
 public:
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, const RecurrentCellOptions& options = {});
  Tensor forward(const Tensor& x, const Tensor& h = {}) const { return run(x, {h, {}}).h; }
  Tensor operator()(const Tensor& x, const Tensor& h = {}) const { return call(*this, x, h); }
};

/// One step of lstm(), of h and c.
class CT_API LSTMCell : public detail::RecurrentCell {
 public:
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const RecurrentCellOptions& options = {});
  LSTMState forward(const Tensor& x, const LSTMState& state = {}) const { return run(x, state); }
  LSTMState operator()(const Tensor& x, const LSTMState& state = {}) const { return call(*this, x, state); }
};

}  // namespace ct::nn
