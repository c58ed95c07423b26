#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/nn/capture/capture.h>

#include "tests/capture_testing.h"
#include "tests/catch.h"
#include "tests/op_testing.h"
#include "tests/variable.h"

// Steps that are run plainly, and captured with groups of calls in one pass.

namespace ct::testing {

// Odd on a CPU; on a GPU whole chunks of 16 bytes, without which most formulas stay apart.
inline Shape shape_on(Device device) { return device.is_cpu() ? Shape{45, 47} : Shape{48, 48}; }

// A step with the tensors that it changes.
struct Program {
  std::vector<Tensor> state;
  std::function<std::vector<Tensor>(const Tensor& x)> step;
};
using Make = std::function<Program()>;

// A GPU gives the result of two NaN in f64 the sign of one of them, and which, its compiler chooses: there a NaN is a NaN.
inline std::string bytes(const std::vector<Tensor>& list) {
  std::string all;
  for (const Tensor& t : list) {
    if (!t.defined()) {
      all += '-';
      continue;
    }
    Tensor on_host = t.detach().to(cpu).contiguous();
    if (t.device().is_cuda() && t.dtype() == f64)
      on_host = where(isnan(on_host), full_like(on_host, NAN), on_host);
    all += bytes_of(on_host) + '|';
  }
  return all;
}

struct StepRun {
  std::vector<std::string> steps;  // results and state after each
  std::vector<std::string> calls;
  std::string account;
};

// Small tensors are worth no group on a CPU, and 16 bits neither: here they are.
struct Fusion : Variable {
  explicit Fusion(const char* how) : Variable("COTANGENT_FUSION", how) {}
};

inline StepRun run(const Make& make, const std::vector<Tensor>& inputs, const CaptureOptions& options) {
  StepRun out;
  manual_seed(6);
  Program p = make();
  auto step = capture([&](const Tensor& x) { return p.step(x); }, options);
  for (const Tensor& x : inputs) out.steps.push_back(bytes(step(x)) + bytes(p.state));
  out.calls = step.kernels(), out.account = step.explain_fusion();
  return out;
}

inline std::vector<Tensor> inputs_of(Device device, DType dtype, const Shape& shape) {
  constexpr int n = 5;
  std::vector<Tensor> list;
  for (int i = 0; i < n; ++i) list.push_back(waves(shape, 0.3 * i, 1.5).to(dtype).to(device));
  return list;
}

inline std::vector<Tensor> inputs_of(Device device, DType dtype = f32) {
  return inputs_of(device, dtype, shape_on(device));
}

// The groups of a step, whose bits are those of the plain step after each.
inline std::vector<std::string> groups(const Make& make, const std::vector<Tensor>& inputs,
                                       std::string* account = nullptr) {
  const Fusion all("all");
  const StepRun plain = run(make, inputs, {.enabled = false}), fused = run(make, inputs, {});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    INFO("step " << i << '\n' << fused.account);
    CHECK((fused.steps[i] == plain.steps[i]));
  }
  if (account) *account = fused.account;
  std::vector<std::string> names;
  for (const std::string& name : fused.calls)
    if (name.starts_with("fused(")) names.push_back(name);
  return names;
}
using Names = std::vector<std::string>;

inline Tensor parameter(Device device, DType dtype, double phase, const Shape& shape) {
  return waves(shape, phase).to(dtype).to(device).detach().set_requires_grad();
}

// The account of a training step, which has the bits of a plain one. Its loss is that of f(x w, b), with w in the shape of x and b in
// that of a row; both go down their gradients.
template <class F>
std::string account_of_training(Device device, DType dtype, F f) {
  const Shape shape = shape_on(device);
  std::string account;
  const Make make = [=] {
    Program p{{parameter(device, dtype, 1, shape), parameter(device, dtype, 2, {shape.back()})}, {}};
    p.step = [=, w = p.state[0], b = p.state[1]](const Tensor& x) -> std::vector<Tensor> {
      const Tensor loss = mean(square(f(x.to(dtype) * w, b)));
      const auto g = grad({loss}, {w, b}, {}, {.allow_unused = true});
      const NoGrad off;
      if (g[0].defined()) Tensor(w).sub_(g[0] * 0.1);
      if (g[1].defined()) Tensor(b).sub_(g[1] * 0.1);
      return {loss};
    };
    return p;
  };
  groups(make, inputs_of(device), &account);
  return account;
}

}  // namespace ct::testing
