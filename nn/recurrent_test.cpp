#include <cotangent/cotangent.h>

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/nn_testing.h"

// PyTorch's values, made by tests/golden/make_recurrent.py, in f64; and what is this library's own.

using namespace ct;
using ct::testing::worst;

namespace {

const StateDict& golden() {
  static const StateDict file = io::load_npz(COTANGENT_SOURCE_DIR "/tests/golden/recurrent.npz");
  return file;
}

constexpr std::int64_t I = 5, H = 4, T = 6, B = 3;

Tensor values(const Shape& shape, std::int64_t k, double unit) {
  Tensor t = Tensor::allocate(shape, f64, cpu);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = static_cast<double>((i * 271 + k * 97 + 13) % 401 - 200) / unit;
  return t;
}
Tensor input(const Shape& shape, std::int64_t k, double unit) {
  return values(shape, k, unit).set_requires_grad();
}

template <class M>
M filled(M module) {
  module.to(f64);
  const NoGrad guard;
  std::int64_t k = 0;
  for (Tensor& p : module.parameters()) p.copy_(values(p.shape(), k++, 256));
  return module;
}

void check(const std::string& name, const nn::Module& module, const std::vector<Tensor>& inputs,
           const std::vector<Tensor>& results) {
  INFO(name);
  const char* const keys[] = {".out", ".h", ".c"};
  Tensor loss = zeros({}, {.dtype = f64});
  for (std::size_t k = 0; k < results.size(); ++k) {
    CHECK(worst(results[k], golden()[name + keys[k]]) < 1e-12);
    loss = loss + (results[k] * values(results[k].shape(), 90 + static_cast<std::int64_t>(k), 128)).sum();
  }
  loss.backward();
  std::vector<double> gradients;
  const auto append = [&](const Tensor& t) {
    const auto g = t.grad().to_vector<double>();
    gradients.insert(gradients.end(), g.begin(), g.end());
  };
  for (const Tensor& t : inputs) append(t);
  for (const Tensor& p : module.parameters()) append(p);
  CHECK(worst(gradients, golden()[name + ".grad"].to_vector<double>()) < 1e-12);
}

// A layer's output and states as a list, for RNN and GRU and for LSTM.
std::vector<Tensor> run(const nn::LSTM& m, const Tensor& x, const std::vector<Tensor>& states,
                        const Tensor& lengths) {
  const auto [y, state] = states.empty() ? m(x, {}, lengths) : m(x, {states[0], states[1]}, lengths);
  return {y, state.h, state.c};
}
template <class M>
std::vector<Tensor> run(const M& m, const Tensor& x, const std::vector<Tensor>& states,
                        const Tensor& lengths) {
  const auto [y, h] = states.empty() ? m(x, {}, lengths) : m(x, states[0], lengths);
  return {y, h};
}

template <class M, class Options>
void check_layers(const std::string& kind, Options) {
  constexpr int kStates = std::is_same_v<M, nn::LSTM> ? 2 : 1;
  const auto states = [&](const Shape& shape) {
    std::vector<Tensor> list;
    for (int k = 0; k < kStates; ++k) list.push_back(input(shape, 51 + k, 256));
    return list;
  };
  const auto one = [&](const std::string& name, const Options& options, const Shape& x_shape,
                       const std::vector<Tensor>& before, const Tensor& lengths = {}) {
    const M m = filled(M(I, H, options));
    std::vector<Tensor> inputs{input(x_shape, 50, 128)};
    const std::vector<Tensor> results = run(m, inputs[0], before, lengths);
    inputs.insert(inputs.end(), before.begin(), before.end());
    check(kind + name, m, inputs, results);
  };
  Options deep, first, plain, both;
  deep.num_layers = first.num_layers = 2;
  deep.bidirectional = first.bidirectional = both.bidirectional = true;
  first.batch_first = true;
  plain.bias = false;
  one(".deep", deep, {T, B, I}, states({4, B, H}));
  one(".lengths", first, {B, T, I}, states({4, B, H}), tensor({4, 6, 1}, {.dtype = i64}));
  one(".plain", plain, {T, B, I}, {});
  one(".unbatched", both, {T, I}, states({2, H}));
}

}  // namespace

TEST_CASE("RNN, GRU and LSTM equal PyTorch's", "[nn][golden][recurrence]") {
  check_layers<nn::RNN>("RNN", nn::RNNOptions{});
  check_layers<nn::GRU>("GRU", nn::RecurrentOptions{});
  check_layers<nn::LSTM>("LSTM", nn::RecurrentOptions{});
  const nn::RNN relu = filled(nn::RNN(I, H, {.num_layers = 2, .nonlinearity = "relu"}));
  const Tensor x = input({T, B, I}, 50, 128), h0 = input({2, B, H}, 51, 256);
  const auto [y, h] = relu(x, h0);
  check("RNN.relu", relu, {x, h0}, {y, h});
}

TEST_CASE("RNNCell, GRUCell and LSTMCell equal PyTorch's", "[nn][golden][recurrence]") {
  const auto x = [] { return input({B, I}, 50, 128); };
  const auto h = [] { return input({B, H}, 51, 256); };
  const auto stateless = [&](const std::string& name, const auto& cell) {
    const std::vector<Tensor> inputs{x(), h()};
    const Tensor next = cell(inputs[0], inputs[1]);
    check(name, cell, inputs, {next, next});
  };
  stateless("RNNCell", filled(nn::RNNCell(I, H)));
  stateless("RNNCell.relu", filled(nn::RNNCell(I, H, {.nonlinearity = "relu"})));
  stateless("GRUCell", filled(nn::GRUCell(I, H)));
  const nn::LSTMCell cell = filled(nn::LSTMCell(I, H));
  const std::vector<Tensor> inputs{x(), h(), input({B, H}, 52, 256)};
  const auto [next, c] = cell(inputs[0], {inputs[1], inputs[2]});
  check("LSTMCell", cell, inputs, {next, next, c});
}

TEST_CASE("recurrent layers have PyTorch's names and initial values", "[nn][recurrence]") {
  const nn::LSTM lstm(3, 16, {.num_layers = 2, .bidirectional = true});
  std::vector<std::string> names;
  for (const auto& p : lstm.named_parameters()) names.push_back(p.name);
  std::vector<std::string> want;
  for (const char* suffix : {"_l0", "_l0_reverse", "_l1", "_l1_reverse"})
    for (const char* part : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"})
      want.push_back(std::string(part) + suffix);
  CHECK(names == want);
  CHECK(lstm.get("weight_ih_l0").shape() == Shape{64, 3});
  CHECK(lstm.get("weight_ih_l1_reverse").shape() == Shape{64, 32});
  CHECK(lstm.get("weight_hh_l1").shape() == Shape{64, 16});
  CHECK(lstm.get("bias_hh_l1").shape() == Shape{64});
  for (const Tensor& p : lstm.parameters()) {
    CHECK(max(abs(p)).item() <= 0.25);
    CHECK(max(abs(p)).item() > 0.2);
  }
  CHECK(nn::GRUCell(3, 4).state_dict().size() == 4);
  CHECK(nn::RNN(3, 4, {.bias = false}).num_parameters() == 4 * 3 + 4 * 4);
  CHECK(nn::to_string(nn::GRU(3, 4, {.num_layers = 2, .batch_first = true, .dropout = 0.5})) ==
        "GRU(3, 4, num_layers=2, batch_first=true, dropout=0.5)");
}

TEST_CASE("a sequence may be handed over in parts", "[nn][recurrence]") {
  manual_seed(1);
  const nn::LSTM lstm(3, 5, {.num_layers = 2});
  const Tensor x = randn({7, 2, 3});
  const auto [whole, last] = lstm(x);
  const auto [first, between] = lstm(x.narrow(0, 0, 3));
  const auto [second, end] = lstm(x.narrow(0, 3, 4), between);
  CHECK(worst(concat({first, second}, 0), whole) < 1e-6);
  CHECK(worst(end.h, last.h) < 1e-6);
  CHECK(worst(end.c, last.c) < 1e-6);

  const nn::LSTMCell cell(3, 5);
  nn::LSTM layer(3, 5);
  StateDict names;
  for (const auto& [name, value] : cell.state_dict()) names.set(name + "_l0", value);
  layer.load_state_dict(names);
  nn::LSTMState state;
  for (std::int64_t t = 0; t < 7; ++t) state = cell(x[t], state);
  CHECK(worst(state.c, layer(x).state.c[0]) < 1e-6);
  CHECK(cell(x[0][0]).h.shape() == Shape{5});
}

TEST_CASE("dropout lies between the layers, in training alone", "[nn][recurrence]") {
  manual_seed(2);
  nn::GRU gru(3, 8, {.num_layers = 2, .dropout = 1.0});
  const Tensor x = randn({4, 2, 3});
  const Tensor dropped = gru(x).output;
  CHECK(worst(gru(x * 3).output, dropped) == 0);  // the second layer sees zeros
  gru.eval();
  CHECK(worst(gru(x * 3).output, gru(x).output) > 1e-3);
  nn::GRU one(3, 8, {.dropout = 1.0});
  CHECK(worst(one(x * 3).output, one(x).output) > 1e-3);
}

TEST_CASE("recurrent layers say what does not fit", "[nn][recurrence]") {
  CHECK_THROWS_WITH(nn::LSTM(0, 4),
                    Catch::Matchers::Contains("input_size and hidden_size must be at least 1"));
  CHECK_THROWS_WITH(nn::GRU(3, 4, {.num_layers = 0}), Catch::Matchers::Contains("num_layers is 0"));
  CHECK_THROWS_WITH(nn::GRU(3, 4, {.dropout = 1.5}), Catch::Matchers::Contains("dropout is 1.5"));
  CHECK_THROWS_WITH(nn::RNN(3, 4, {.nonlinearity = "sin"}),
                    Catch::Matchers::Contains("nonlinearity is \"sin\""));
  const nn::LSTM lstm(3, 4, {.bidirectional = true});
  CHECK_THROWS_WITH(lstm(zeros({5, 2, 4})), Catch::Matchers::Contains("[steps, batch, 3]"));
  CHECK_THROWS_WITH(lstm(zeros({5, 2, 3}), {zeros({1, 2, 4}), {}}),
                    Catch::Matchers::Contains("the state is f32[1, 2, 4]; it must be [2, 2, 4]"));
  CHECK_THROWS_WITH(lstm(zeros({5, 2, 3}), {}, zeros({3}, {.dtype = i64})),
                    Catch::Matchers::Contains("lengths is i64[3]"));
  CHECK_THROWS_WITH(lstm(zeros({0, 2, 3})), Catch::Matchers::Contains("at least one step"));
  CHECK_THROWS_WITH(nn::RNNCell(3, 4)(zeros({5, 2, 3})),
                    Catch::Matchers::Contains("[batch, inputs] or [inputs]"));
}
