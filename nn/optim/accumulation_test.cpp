#include <cmath>

#include <cotangent/core/memory/allocator.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/linear/linear.h>
#include <cotangent/ops/loss/classes/cross_entropy.h>
#include <cotangent/ops/reduce/reduce.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"
#include "tests/optim_testing.h"

// Gradients of micro-batches, added up.

using namespace ct;
using namespace ct::optim;
using namespace ct::testing;

namespace {

struct Net : nn::Module {
  nn::Linear in = add("in", nn::Linear(12, 20));
  nn::Linear out = add("out", nn::Linear(20, 5));
  Tensor forward(const Tensor& x) const { return out(tanh(in(x))); }
};

std::vector<double> gradients(const Net& net) {
  std::vector<Tensor> grads;
  for (const Tensor& p : net.parameters()) grads.push_back(p.grad());
  return flat_values(grads);
}

// One weight matrix of a MiB, a second backward pass, and the memory that it took at most.
void check_accumulates_in_place(Device device, DType dtype) {
  constexpr std::int64_t n = 512;
  const Tensor w = randn({n, n}, {.dtype = dtype, .device = device}).set_requires_grad();
  const Tensor x = randn({2, n}, {.dtype = dtype, .device = device});
  const auto backward = [&] {
    const Tensor y = linear(x, w).sum();
    const std::size_t before = memory_stats(device).in_use;
    reset_peak_stats(device);
    y.backward();
    return memory_stats(device).peak_in_use - before;
  };
  const auto bytes = static_cast<std::size_t>(w.nbytes());
  CHECK(backward() > bytes * 3 / 4);  // the CPU counts to 64 KiB per thread
  const void* place = w.grad().raw_data();
  const std::vector<double> once = w.grad().to_vector<double>();
  const std::size_t second = backward();
  CHECK(second < bytes / 2);  // the gradient is not made and added: the product adds to it
  CHECK(w.grad().raw_data() == place);
  const std::vector<double> twice = w.grad().to_vector<double>();
  const double rounding = dtype == bf16 ? 0x1p-7 : 0x1p-21;
  bool doubled = true;
  for (std::size_t i = 0; i < once.size(); ++i)
    doubled = doubled && std::abs(twice[i] - 2 * once[i]) <= rounding * std::abs(2 * once[i]);
  CHECK(doubled);
}

}  // namespace

TEST_CASE("micro-batches give the big batch's gradient", "[optim][accumulation]") {
  manual_seed(5);
  Net net;
  net.to(f64);
  const Tensor x = randn({24, 12}, {.dtype = f64});
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 24; ++i) labels.push_back(i * 7 % 5);
  const Tensor y = from_vector(labels);
  cross_entropy(net.forward(x), y).backward();
  const std::vector<double> want = gradients(net);
  for (const std::int64_t micro : {1, 6, 8, 12}) {
    net.zero_grad();
    for (std::int64_t at = 0; at < 24; at += micro) {
      const Tensor loss = cross_entropy(net.forward(x.slice(0, at, at + micro)), y.slice(0, at, at + micro));
      (loss * (static_cast<double>(micro) / 24)).backward();
    }
    const std::vector<double> got = gradients(net);
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) < 1e-15);
  }
}

TEST_CASE("the weight gradients of micro-batches are added up by the products themselves",
          "[optim][accumulation]") {
  check_accumulates_in_place(cpu, f32);
  check_accumulates_in_place(cpu, bf16);
}

TEST_CASE("on CUDA the products add up, too", "[optim][accumulation][cuda]") {
  check_accumulates_in_place(cuda(0), f32);
  check_accumulates_in_place(cuda(0), bf16);
}
