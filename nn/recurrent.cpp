#include <cotangent/nn/recurrent.h>

#include <cmath>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/base/error.h>
#include <cotangent/nn/init.h>
#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/elementwise/dropout.h>
#include <cotangent/ops/recurrence/recurrence.h>

namespace ct::nn {
namespace detail {
namespace {

const char* name_of(CellKind kind, bool cell) {
  static constexpr const char* kNames[] = {"RNN", "GRU", "LSTM", "RNNCell", "GRUCell", "LSTMCell"};
  return kNames[static_cast<int>(kind) + (cell ? 3 : 0)];
}

CellParameters make_cell(Module& module, CellKind kind, const std::string& suffix, std::int64_t inputs,
                         std::int64_t hidden, const RNNOptions& options) {
  const std::int64_t gates = hidden * (kind == CellKind::rnn ? 1 : kind == CellKind::gru ? 3 : 4);
  const auto make = [&](const char* name, const Shape& shape, bool there = true) {
    return module.parameter(name + suffix,
                            there ? Tensor::allocate(shape, options.dtype, options.device) : Tensor());
  };
  CellParameters cell;
  cell.w_ih = make("weight_ih", {gates, inputs});
  cell.w_hh = make("weight_hh", {gates, hidden});
  cell.b_ih = make("bias_ih", {gates}, options.bias);
  cell.b_hh = make("bias_hh", {gates}, options.bias);
  return cell;
}

void reset(const CellParameters& cell, std::int64_t hidden) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  for (const Parameter* p : {&cell.w_ih, &cell.w_hh, &cell.b_ih, &cell.b_hh})
    if (p->defined()) init::uniform_(*p, -bound, bound);
}

void check(const char* kind, std::int64_t inputs, std::int64_t hidden, const std::string& nonlinearity) {
  CT_CHECK(inputs > 0 && hidden > 0, ShapeError, kind, "got sizes ", inputs, " and ", hidden,
           "; input_size and hidden_size must be at least 1");
  CT_CHECK(nonlinearity == "tanh" || nonlinearity == "relu", ValueError, kind, "nonlinearity is \"",
           nonlinearity, "\"; it must be \"tanh\" or \"relu\"");
}

Recurrence run_cell(CellKind kind, const CellParameters& cell, const Tensor& x, const LSTMState& state,
                    const RecurrenceOptions& options, bool relu) {
  const RecurrentWeights weights{cell.w_ih, cell.w_hh, cell.b_ih, cell.b_hh};
  switch (kind) {
    case CellKind::rnn: return rnn(x, state.h, weights, options, relu);
    case CellKind::gru: return gru(x, state.h, weights, options);
    case CellKind::lstm: break;
  }
  return lstm(x, state.h, state.c, weights, options);
}

// f(t), where there is one.
template <class F>
Tensor where_defined(const Tensor& t, F&& f) {
  return t.defined() ? f(t) : t;
}

}  // namespace

RecurrentLayers::RecurrentLayers(CellKind kind, std::int64_t input_size, std::int64_t hidden_size,
                                 const RNNOptions& options)
    : kind_(kind), input_(input_size), hidden_(hidden_size), options_(options) {
  const char* const name = name_of(kind, false);
  check(name, input_, hidden_, options_.nonlinearity);
  CT_CHECK(options_.num_layers >= 1, ValueError, name, "num_layers is ", options_.num_layers,
           "; it must be at least 1");
  ct::detail::check_probability(name, "dropout", options_.dropout);
  std::string settings = ct::detail::cat(input_, ", ", hidden_);
  if (options_.num_layers > 1) settings += ct::detail::cat(", num_layers=", options_.num_layers);
  if (options_.nonlinearity != "tanh") settings += ", nonlinearity=" + options_.nonlinearity;
  if (!options_.bias) settings += ", bias=false";
  if (options_.batch_first) settings += ", batch_first=true";
  if (options_.dropout > 0) settings += ct::detail::cat(", dropout=", options_.dropout);
  if (options_.bidirectional) settings += ", bidirectional=true";
  describe_as(name, settings);
  const int directions = options_.bidirectional ? 2 : 1;
  for (std::int64_t layer = 0; layer < options_.num_layers; ++layer)
    for (int direction = 0; direction < directions; ++direction)
      cells_.push_back(make_cell(*this, kind, ct::detail::cat("_l", layer, direction ? "_reverse" : ""),
                                 layer == 0 ? input_ : directions * hidden_, hidden_, options_));
  reset_parameters();
}

void RecurrentLayers::reset_parameters() {
  for (const CellParameters& cell : cells_) reset(cell, hidden_);
}

LSTMOutput RecurrentLayers::run(const Tensor& x, const LSTMState& state, const Tensor& lengths) const {
  const char* const name = name_of(kind_, false);
  CT_CHECK((x.dim() == 3 || x.dim() == 2) && x.size(-1) == input_, ShapeError, name, "x is ", describe(x),
           "; it must be ", options_.batch_first ? "[batch, steps, " : "[steps, batch, ", input_,
           "], or [steps, ", input_, "]");
  const bool batched = x.dim() == 3;
  const auto count = static_cast<std::int64_t>(cells_.size());
  const auto batched_state = [&](const Tensor& t) {
    return where_defined(t, [&](const Tensor& s) {
      const Tensor all = batched || s.dim() != 2 ? s : s.unsqueeze(1);
      const Shape want{count, batched ? x.size(options_.batch_first ? 0 : 1) : 1, hidden_};
      CT_CHECK(all.shape() == want, ShapeError, name, "the state is ", describe(s), "; it must be ",
               batched ? want : Shape{count, hidden_});
      return all;
    });
  };
  const LSTMState first{batched_state(state.h), batched_state(state.c)};

  const Tensor ends = where_defined(lengths, [&](const Tensor& t) { return t.to(x.device()); });
  Tensor y = !batched ? x.unsqueeze(1) : options_.batch_first ? x.transpose(0, 1) : x;
  std::vector<Tensor> h, c;
  const int directions = options_.bidirectional ? 2 : 1;
  for (std::int64_t i = 0; i < count; i += directions) {
    if (i > 0) y = dropout(y, options_.dropout, is_training());
    std::vector<Tensor> outputs;
    for (std::int64_t d = 0; d < directions; ++d) {
      const auto one = [&](const Tensor& all) { return all[i + d]; };
      const Recurrence made = run_cell(kind_, cells_[static_cast<std::size_t>(i + d)], y,
                                       {where_defined(first.h, one), where_defined(first.c, one)},
                                       {ends, d == 1}, options_.nonlinearity == "relu");
      outputs.push_back(made.output), h.push_back(made.h), c.push_back(made.c);
    }
    y = directions == 1 ? outputs[0] : concat(outputs, -1);
  }
  const auto as_given = [&](const std::vector<Tensor>& states) {
    return batched ? stack(states) : stack(states).squeeze(1);
  };
  return {!batched               ? y.squeeze(1)
          : options_.batch_first ? y.transpose(0, 1)
                                 : y,
          {as_given(h), kind_ == CellKind::lstm ? as_given(c) : Tensor{}}};
}

RecurrentCell::RecurrentCell(CellKind kind, std::int64_t input_size, std::int64_t hidden_size,
                             const RNNOptions& options)
    : kind_(kind), hidden_(hidden_size), relu_(options.nonlinearity == "relu") {
  check(name_of(kind, true), input_size, hidden_, options.nonlinearity);
  describe_as(name_of(kind, true),
              ct::detail::cat(input_size, ", ", hidden_, options.bias ? "" : ", bias=false",
                              relu_ ? ", nonlinearity=relu" : ""));
  cell_ = make_cell(*this, kind, "", input_size, hidden_, options);
  reset_parameters();
}

void RecurrentCell::reset_parameters() { reset(cell_, hidden_); }

LSTMState RecurrentCell::run(const Tensor& x, const LSTMState& state) const {
  CT_CHECK(x.dim() == 1 || x.dim() == 2, ShapeError, name_of(kind_, true), "x is ", describe(x),
           "; it must be [batch, inputs] or [inputs]");
  const bool batched = x.dim() == 2;
  const auto rows = [&](const Tensor& t) { return batched ? t : t.unsqueeze(0); };
  const Recurrence made = run_cell(kind_, cell_, rows(x).unsqueeze(0),
                                   {where_defined(state.h, rows), where_defined(state.c, rows)}, {}, relu_);
  const auto as_given = [&](const Tensor& t) { return batched ? t : t.squeeze(0); };
  return {as_given(made.h), where_defined(made.c, as_given)};
}

namespace {
RNNOptions general(const RecurrentOptions& o) {
  return {o.num_layers, "tanh", o.bias, o.batch_first, o.dropout, o.bidirectional, o.dtype, o.device};
}
RNNOptions of_cell(bool bias, const std::string& nonlinearity, DType dtype, Device device) {
  return {.nonlinearity = nonlinearity, .bias = bias, .dtype = dtype, .device = device};
}
}  // namespace
}  // namespace detail

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options)
    : RecurrentLayers(detail::CellKind::rnn, input_size, hidden_size, options) {}

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options)
    : RecurrentLayers(detail::CellKind::gru, input_size, hidden_size, detail::general(options)) {}

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options)
    : RecurrentLayers(detail::CellKind::lstm, input_size, hidden_size, detail::general(options)) {}

RNNCell::RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& o)
    : RecurrentCell(detail::CellKind::rnn, input_size, hidden_size,
                    detail::of_cell(o.bias, o.nonlinearity, o.dtype, o.device)) {}
GRUCell::GRUCell(std::int64_t input_size, std::int64_t hidden_size, const RecurrentCellOptions& o)
    : RecurrentCell(detail::CellKind::gru, input_size, hidden_size,
                    detail::of_cell(o.bias, "tanh", o.dtype, o.device)) {}
LSTMCell::LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const RecurrentCellOptions& o)
    : RecurrentCell(detail::CellKind::lstm, input_size, hidden_size,
                    detail::of_cell(o.bias, "tanh", o.dtype, o.device)) {}

}  // namespace ct::nn
