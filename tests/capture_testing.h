#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cotangent/core/base/rng.h>
#include <cotangent/nn/activation.h>
#include <cotangent/nn/capture/capture.h>
#include <cotangent/nn/container.h>
#include <cotangent/nn/dropout.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/normalization.h>
#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

// A small net with a whole step, for tests of captured steps.

namespace ct::testing {

struct Batch {
  Tensor x, y;
};
/// Batches of `rows` rows, of which some differ where `ragged`.
inline std::vector<Batch> batches(int n, std::int64_t rows = 7, Device device = cpu, bool ragged = false) {
  manual_seed(17);
  std::vector<Batch> list;
  for (int i = 0; i < n; ++i) {
    const std::int64_t m = ragged && i % 3 == 2 ? rows - 2 : rows;
    list.push_back({randn({m, 12}).to(device), randint(0, 5, {m}).to(device)});
  }
  return list;
}

struct NetOptions {
  double dropout = 0.3;
  bool batch_norm = false;
  Device device = cpu;
  DType dtype = f32;
  std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)> optimizer =
      [](std::vector<Tensor> p) {
        return std::make_unique<optim::AdamW>(std::move(p), optim::AdamWOptions{.lr = 1e-2});
      };
};

struct Net {
  using Options = NetOptions;
  explicit Net(const Options& o = {})
      : model((manual_seed(3), make(o))),
        optimizer(o.optimizer(model.parameters())),
        schedule(*optimizer, {.step_size = 3, .gamma = 0.5}) {}

  Tensor step(const Tensor& x, const Tensor& y) {
    optimizer->zero_grad();
    Tensor loss = cross_entropy(model.forward(x), y);
    loss.backward();
    optim::clip_grad_norm_(model.parameters(), 1.0);
    optimizer->step();
    schedule.step();
    return loss;
  }
  auto captured(const CaptureOptions& options = {}) {
    return capture([this](const Tensor& x, const Tensor& y) { return step(x, y); }, options);
  }
  /// Every bit that training changes.
  std::string result() const {
    std::string bytes;
    const auto add = [&](const Tensor& t) {
      bytes += t.defined() ? bytes_of(t.detach().to(cpu).contiguous()) : "-";
    };
    for (const Tensor& p : model.parameters()) add(p.grad());
    for (const StateDict& s : {model.state_dict(), optimizer->state_dict()})
      for (const auto& [name, t] : s) add(t);
    return bytes + std::to_string(schedule.time()) + ' ' + std::to_string(optimizer->lr()) + ' ' +
           std::to_string(default_generator().offset());
  }

  nn::Sequential model;
  std::unique_ptr<optim::Optimizer> optimizer;
  optim::StepLR schedule;

 private:
  static nn::Sequential make(const Options& o) {
    nn::Sequential made(nn::Linear(12, 20), nn::LayerNorm(20), nn::GELU(), nn::Dropout(o.dropout),
                        nn::Linear(20, 17));
    if (o.batch_norm) made.append(nn::BatchNorm1d(17));
    made.append(nn::Linear(17, 5));
    made.to(o.device, o.dtype);
    return made;
  }
};

/// Trains two nets over `data`, one by plain steps, one by `step_of(net)`, a captured step, and demands the same bits after
/// each. Gives the captured step back.
template <class StepOf>
auto check_same_bits(const NetOptions& options, const std::vector<Batch>& data, StepOf&& step_of) {
  Net eager(options);
  auto captured = std::make_unique<Net>(options);
  std::vector<std::string> results;
  manual_seed(5);
  for (const Batch& b : data) {
    const Tensor loss = eager.step(b.x.to(options.dtype), b.y);
    results.push_back(bytes_of(loss.detach().to(cpu)) + eager.result());
  }
  manual_seed(5);
  auto step = step_of(*captured);
  for (std::size_t i = 0; i < data.size(); ++i) {
    INFO("step " << i);
    const Tensor loss = step(data[i].x.to(options.dtype), data[i].y);
    CHECK((bytes_of(loss.to(cpu)) + captured->result() == results[i]));
  }
  return std::pair(std::move(captured), std::move(step));
}
inline auto check_same_bits(const NetOptions& options, const std::vector<Batch>& data) {
  return check_same_bits(options, data, [](Net& net) { return net.captured(); });
}

}  // namespace ct::testing
