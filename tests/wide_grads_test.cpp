#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/autocast.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/linear/linear.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/testing/samples.h>

#include "tests/catch.h"

// OpDef::wide_grads: the gradient of an f32 parameter that was converted to 16 bits for an op is computed,
// and added up, in f32. Every op that declares it is held against itself in f64: what rounds a gradient to 16
// bits anywhere is off by a hundred times the tolerance.

namespace {

using namespace ct;

struct Call {
  const OpDef& op;
  const Sample& sample;
  DType dtype;
  Device device;
};

// The op's first output for inputs of any dtypes.
Tensor run(const Call& call, const std::vector<Tensor>& inputs) {
  std::vector<const Tensor*> refs;
  for (const Tensor& t : inputs) refs.push_back(&t);
  std::array<Tensor, kMaxOutputs> outputs;
  dispatch(call.op, refs, call.sample.attrs.view(), outputs);
  return outputs[0];
}

double largest(const Tensor& t) {
  double most = 0;
  for (const double v : t.to(cpu).to(f64).to_vector<double>()) most = std::max(most, std::abs(v));
  return most;
}

void check(const Call& call) {
  const auto& inputs = call.sample.inputs;
  INFO(call.op.name << ", " << call.sample.label << ", " << name(call.dtype));
  std::vector<Tensor> masters, exact, low;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = inputs[i];
    const bool floating = t.defined() && is_floating(t.dtype());
    const Tensor rounded = floating ? t.to(call.dtype).to(call.device) : t.defined() ? t.to(call.device) : t;
    masters.push_back(floating ? rounded.to(f32).clone().set_requires_grad() : Tensor{});
    exact.push_back(floating ? rounded.to(f64).to(cpu).clone().set_requires_grad() : t);
    low.push_back(floating ? masters.back().to(call.dtype) : rounded);
  }
  const Tensor y = run(call, low), y64 = run(call, exact);
  if (!y.requires_grad() || y.numel() == 0) return;
  const Tensor g = randn(y64.shape(), {.dtype = f64}).to(call.dtype);
  y.backward(g.to(y.dtype()).to(call.device), true);
  y64.backward(g.to(f64));
  // Losses round logits and their gradients to 16 bits in between, recurrences states and gates.
  const std::string op = call.op.name;
  const bool rounds = op.starts_with("linear_cross_entropy") || op == "rnn" || op == "gru" || op == "lstm";
  const double tolerance = rounds ? 0.05 : 1e-5;
  for (const double passes : {1.0, 2.0}) {
    if (passes == 2) y.backward(g.to(y.dtype()).to(call.device));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!mask_bit(call.op.wide_grads, i) || !masters[i].defined()) continue;
      INFO("input " << i << ", pass " << passes);
      REQUIRE(masters[i].grad().defined());
      CHECK(masters[i].grad().dtype() == f32);
      const Tensor want = exact[i].grad() * passes;
      CHECK(largest(masters[i].grad().to(cpu).to(f64) - want) <= tolerance * std::max(1.0, largest(want)));
    }
  }
}

void check_all(Device device) {
  int ops = 0;
  for (const OpDef* op : registry()) {
    if (op->wide_grads == 0) continue;
    ++ops;
    SampleMaker make(7);
    const std::vector<Sample> samples = find_tests(op->name)->samples(make);
    for (const Sample& sample : samples)
      for (const DType dtype : {f16, bf16})
        if (op->dtypes & dtype_bit(dtype)) check({*op, sample, dtype, device});
  }
  CHECK(ops >= 4);
}

// A sum of 16-bit gradients would lose all but the first of these.
void check_micro_batches(Device device) {
  const Tensor w = zeros({1, 1}, {.device = device}).set_requires_grad();
  const Tensor bias = zeros({1}, {.device = device}).set_requires_grad();
  for (const double x : {256.0, 1.0, 1.0, 1.0}) {
    const Autocast guard(bf16);
    const Tensor y = linear(full({1, 1}, x, {.device = device}), w, bias);
    const Tensor before = w.grad();
    y.backward(full({1, 1}, x == 256 ? 1.0 : 0.00390625, {.dtype = bf16, .device = device}));
    if (before.defined()) CHECK(w.grad().is_same(before));  // added to where it lies
  }
  CHECK(w.grad().item() == 256 + 3 * 0.00390625);
  CHECK(bias.grad().item() == 1 + 3 * 0.00390625);
}

// Who listens to the converted weight gets what has always flowed there.
void check_listeners(Device device) {
  Tensor w = randn({3, 5}, {.device = device}).set_requires_grad();
  const Tensor x = randn({7, 5}, {.dtype = bf16, .device = device}),
               g = randn({7, 3}, {.device = device}).to(bf16);
  const auto gradient = [&](const auto& prepare) {
    w.set_grad({});
    const Tensor low = w.to(bf16);
    prepare(low);
    linear(x, low).backward(g);
    return w.grad().clone();
  };
  const Tensor wide = gradient([](const Tensor&) {});
  int heard = 0;
  const Tensor narrow = gradient([&](const Tensor& low) {
    low.register_hook([&](const Tensor& t) {
      heard += t.dtype() == bf16;
      return Tensor{};
    });
  });
  CHECK(heard == 1);
  CHECK(equal(narrow, wide.to(bf16).to(f32)));
  CHECK_FALSE(equal(narrow, wide));
  const Tensor kept = gradient([](const Tensor& low) { low.retain_grad(); });
  CHECK(equal(kept, narrow));

  // grad() takes the same ways, and stops where it is asked to.
  const Tensor low = w.to(bf16), y = linear(x, low);
  const std::vector<Tensor> leaf = grad(std::array{y}, std::array{w}, std::array{g}, {.retain_graph = true});
  CHECK(equal(leaf[0], wide));
  const std::vector<Tensor> both = grad(std::array{y}, std::array{w, low}, std::array{g});
  CHECK(both[1].dtype() == bf16);
  CHECK(equal(both[0], narrow));
}

}  // namespace

TEST_CASE("wide gradients: every op that declares them adds up in f32", "[wide_grads]") {
  manual_seed(3);
  SECTION("all samples") { check_all(cpu); }
  SECTION("micro-batches") { check_micro_batches(cpu); }
  SECTION("listeners") { check_listeners(cpu); }
}

TEST_CASE("wide gradients on CUDA", "[wide_grads][cuda]") {
  manual_seed(3);
  SECTION("all samples") { check_all(cuda(0)); }
  SECTION("micro-batches") { check_micro_batches(cuda(0)); }
  SECTION("listeners") { check_listeners(cuda(0)); }
}
