#include <cotangent/core/memory/allocator.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <cotangent/core/op/registry.h>
#include <cotangent/nn/capture/calls_internal.h>
#include <cotangent/ops/testing/conformance_internal.h>
#include <cotangent/ops/testing/samples.h>

#include "tests/catch.h"
#include "tests/training_testing.h"

// Recording a step: it changes nothing of the step, and what it holds is enough to do the step again.

using namespace ct;
using namespace ct::testing;
using capture_impl::CallRecorder;

namespace {

using Names = std::set<std::string>;

struct Replay {
  explicit Replay(const std::vector<capture_impl::RecordedCall>& recorded)
      : calls(recorded), list(recorded), made(list.made) {}

  void run() {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::uint64_t requests = memory_stats(cpu).requests;
      if (list.run(i)) strays.insert(calls[i].name());
      if (memory_stats(cpu).requests != requests) allocating.insert(calls[i].name());
    }
  }

  const std::vector<capture_impl::RecordedCall>& calls;
  capture_impl::CallList list;
  const std::vector<Ref<Storage>>& made;
  // Ops whose kernels make a result of their own; those that allocate.
  Names strays, allocating;
};

struct Measured {
  std::uint64_t requests = 0, allocations = 0;
  std::size_t peak = 0;
  std::string result;
};

// Some steps of a small GPT, forward, backward, clipping, AdamW, averages and zero_grad, under `tracer`.
Measured train(Tracer* tracer) {
  manual_seed(8);
  TinyTraining training({.accumulate = 2});
  training.train(1 << 30, [&] { return training.seen < 8; });
  std::optional<TracerScope> scope;
  if (tracer) scope.emplace(*tracer);
  const MemoryStats before = memory_stats(cpu);
  reset_peak_stats(cpu);
  training.train(1 << 30, [&] { return training.seen < 12; });
  const MemoryStats after = memory_stats(cpu);
  return {after.requests - before.requests, after.allocations - before.allocations,
          after.peak_in_use - before.in_use, training.result()};
}

// Keeps a handle of each result, as recorders do that know no better.
struct Holder final : Tracer {
  bool begin(const KernelCall&) override { return false; }
  void end(const KernelCall& call) override {
    held.insert(held.end(), call.results().begin(), call.results().end());
  }
  std::vector<Tensor> held;
};

}  // namespace

TEST_CASE("a recorder sees a whole step without changing it", "[recording]") {
  train(nullptr);  // what is made at first use
  const Measured plain = train(nullptr);
  CallRecorder recorder;
  const Measured recorded = train(&recorder);
  CHECK(recorder.calls.size() > 200);
  CHECK(recorded.requests == plain.requests);
  CHECK(recorded.allocations == plain.allocations);
  // The CPU's peak is exact to what a thread has not told yet.
  CHECK(std::max(recorded.peak, plain.peak) - std::min(recorded.peak, plain.peak) <= 64 * 1024);
  CHECK((recorded.result == plain.result));
  // Handles are counted where the tape asks whether one is the last: sums in place become copies, and what a kernel would
  // have added to a sum is added to it later, after rounding.
  Holder holder;
  CHECK(train(&holder).requests > plain.requests);
}

namespace {

using Layers = std::function<nn::Sequential()>;

// A training by plain descent: every update is a call of ops.
struct Descent {
  explicit Descent(const Layers& layers) : model((manual_seed(3), layers())) {}

  void step(const Tensor& x, const Tensor& y) {
    for (Tensor p : model.parameters()) p.set_grad({});
    loss = {};
    loss = cross_entropy(model.forward(x), y);
    loss.backward();
    const NoGrad off;
    for (Tensor p : model.parameters()) p.sub_(p.grad() * 0.1);
  }
  std::string result() const {
    std::string bytes = bytes_of(loss.detach());
    for (const Tensor& p : model.parameters()) bytes += bytes_of(p.detach()) + bytes_of(p.grad());
    for (const auto& [name, b] : model.state_dict()) bytes += bytes_of(b.contiguous());
    return bytes;
  }

  nn::Sequential model;
  Tensor loss;
};

// A step in a memory pool, recorded, then replayed on other data, and the same by eager steps.
void check_replay(const Layers& layers, const Shape& shape) {
  manual_seed(5);
  std::vector<Tensor> xs, ys;
  for (int i = 0; i < 4; ++i) {
    xs.push_back(randn(shape));
    ys.push_back(randint(0, 10, {shape[0]}));
  }
  Descent eager(layers), replayed(layers);
  for (std::size_t i = 0; i < 4; ++i) eager.step(xs[i], ys[i]);

  Tensor x = xs[0].clone(), y = ys[0].clone();
  const MemoryPoolId pool = make_memory_pool(cpu);
  CallRecorder recorder;
  {
    const MemoryPoolGuard slots(cpu, pool);
    replayed.step(x, y);  // the second step differs: it has gradients to let go of
    x.copy_(xs[1]), y.copy_(ys[1]);
    const TracerScope scope(recorder);
    replayed.step(x, y);
  }
  const std::size_t held = memory_pool_bytes(cpu, pool);
  Replay replay(recorder.calls);
  for (std::size_t i = 2; i < 4; ++i) {
    x.copy_(xs[i]), y.copy_(ys[i]);
    replay.run();
  }
  CHECK(replay.strays == Names{});
  CHECK(replay.allocating == Names{});
  CHECK(memory_pool_bytes(cpu, pool) == held);
  CHECK((replayed.result() == eager.result()));
  replayed.loss = {};
  release_memory_pool(cpu, pool);
}

}  // namespace

TEST_CASE("a recorded step in a memory pool is replayed by its kernels, equal to the bit", "[recording]") {
  SECTION("perceptron") {
    check_replay(
        [] {
          return nn::Sequential(nn::Linear(20, 32), nn::ReLU(), nn::Linear(32, 17), nn::GELU(),
                                nn::Linear(17, 10));
        },
        {7, 20});
  }
  SECTION("norms") {
    check_replay(
        [] {
          return nn::Sequential(nn::Linear(20, 32), nn::LayerNorm(32), nn::SiLU(), nn::Linear(32, 17),
                                nn::BatchNorm1d(17), nn::Linear(17, 10));
        },
        {9, 20});
  }
  SECTION("convolutions") {
    check_replay(
        [] {
          return nn::Sequential(nn::Conv2d(3, 8, 3, {.padding = 1}), nn::BatchNorm2d(8), nn::ReLU(),
                                nn::MaxPool2d(2), nn::Conv2d(8, 5, 3, {.stride = 2}), nn::Flatten(),
                                nn::Linear(45, 10));
        },
        {5, 3, 15, 15});
  }
  SECTION("convolutions of many channels") {
    check_replay(
        [] {
          return nn::Sequential(nn::Conv2d(8, 16, 3, {.padding = 1}), nn::ReLU(),
                                nn::Conv2d(16, 8, 3, {.padding = 1}), nn::Flatten(), nn::Linear(2048, 10));
        },
        {3, 8, 16, 16});
  }
}

namespace {

std::string bytes_of(const testing::conformance::Tensors& list) {
  std::string bytes;
  for (const Tensor& t : list)
    if (t.defined()) bytes += testing::bytes_of(t.contiguous());
  return bytes;
}

bool shares(const Tensor& t, const testing::conformance::Tensors& list) {
  return std::ranges::any_of(list, [&](const Tensor& other) {
    return other.defined() && other.impl()->storage == t.impl()->storage;
  });
}

}  // namespace

TEST_CASE("kernels of every op find all that they need in a recorded call", "[recording]") {
  const Names known{"nonzero"};  // values tell the size of its result
  Names strays;
  int calls = 0;
  for (const OpDef* op : registry())
    for (const DType dtype : {f32, bf16, f64, i64}) {
      if (!(op->dtypes & dtype_bit(dtype))) continue;
      SampleMaker make(1), make_cotangents(2);
      for (const Sample& sample : find_tests(op->name)->samples(make)) {
        const testing::conformance::Tensors inputs =
            testing::conformance::convert(*op, sample.inputs, dtype, cpu);
        CallRecorder recorder;
        const MemoryPoolId pool = make_memory_pool(cpu);
        testing::conformance::Tensors cotangents;
        for (const Tensor& y : testing::conformance::call(*op, inputs, sample.attrs))
          cotangents.push_back(is_floating(y.dtype()) &&
                                       mask_bit(op->differentiable_outputs, cotangents.size())
                                   ? make_cotangents.normal(y.shape()).to(y.dtype())
                                   : Tensor());
        testing::conformance::Gradients got;
        {
          const MemoryPoolGuard slots(cpu, pool);
          const TracerScope scope(recorder);
          if (op->differentiable && is_floating(dtype))
            got = testing::conformance::differentiate(*op, inputs, sample.attrs, cotangents, ~0u);
          else
            got.outputs = testing::conformance::call(*op, inputs, sample.attrs);
        }
        Replay replay(recorder.calls);
        const std::string first = bytes_of(got.outputs) + bytes_of(got.grads);
        const auto spoil = [](const Ref<Storage>& s) {
          if (s->bytes() > 0) std::memset(s->data(), 0x7f, s->bytes());
        };
        std::ranges::for_each(replay.made, spoil);
        for (const testing::conformance::Tensors* list : {&got.outputs, &got.grads})
          for (const Tensor& t : *list)
            if (t.defined() && !shares(t, inputs) && !shares(t, cotangents)) spoil(t.impl()->storage);
        replay.run();
        calls += static_cast<int>(recorder.calls.size());
        INFO(op->name << ' ' << name(dtype) << ' ' << sample.label);
        CHECK((bytes_of(got.outputs) + bytes_of(got.grads) == first));
        strays.merge(replay.strays);
        got = {};
        release_memory_pool(cpu, pool);
      }
    }
  CHECK(calls > 1000);
  Names others;
  std::set_difference(strays.begin(), strays.end(), known.begin(), known.end(),
                      std::inserter(others, others.end()));
  CHECK(others == Names{});
}
