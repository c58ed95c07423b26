#include <cmath>

#include <cotangent/core/jit/cuda_text.h>
#include <cotangent/nn/plugin/each_element.h>
#include <cotangent/nn/plugin/own_op.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/testing/samples.h>

CT_CUDA_TEXT(kCuda, "op.cu")

namespace {
using namespace ct;

void infer(Infer& c) { c.output(c.in(0).shape(), c.in(0).dtype()); }

void forward_cpu(const Forward& f) {
  const auto y = [](auto x) { return x / std::sqrt(1 + x * x); };
  each_element(f.op.name, f.out(), y, f.in(0));
}
void backward_cpu(const Backward& b) {
  const auto dx = [](auto x, auto g) { return g / ((1 + x * x) * std::sqrt(1 + x * x)); };
  each_element(b.op.name, b.grad_in(0), dx, b.in(0), b.grad());
}

// Plain kernel: the same in f64, in the plainest way, as the reference of the others.
void forward_plain(const Forward& f) {
  const double* x = f.in(0).data<double>();
  double* y = f.out().data<double>();
  for (std::int64_t i = 0; i < f.in(0).numel(); ++i) y[i] = x[i] / std::sqrt(1 + x[i] * x[i]);
}
void backward_plain(const Backward& b) {
  const double *x = b.in(0).data<double>(), *g = b.grad().data<double>();
  double* dx = b.grad_in(0).data<double>();
  for (std::int64_t i = 0; i < b.in(0).numel(); ++i) dx[i] = g[i] * std::pow(1 + x[i] * x[i], -1.5);
}

void forward_cuda(const Forward& f) { kCuda.each(f.op.name, "forward", {f.in(0), f.out()}); }
void backward_cuda(const Backward& b) {
  kCuda.each(b.op.name, "backward", {b.in(0), b.grad(), b.grad_in(0)});
}

// The gradient as ops on the tape, for gradients of gradients; and the op composed of the library's.
void rule(const Backward& b) { b.set_grad_in(0, b.grad() * pow(1 + square(b.in(0)), -1.5)); }
std::vector<Tensor> composed(std::span<const Tensor> x, AttrsView) {
  return {x[0] * rsqrt(1 + square(x[0]))};
}

std::vector<Sample> samples(SampleMaker& make) {
  return {{{make.normal({3, 5})}, {}, "odd sizes"},
          {{make.normal({})}, {}, "scalar"},
          {{make.normal({0, 4})}, {}, "empty"}};
}
std::vector<Sample> bench(SampleMaker&) { return {{{randn({1 << 24})}, {}, "2^24"}}; }

constexpr InputDef kInputs[] = {{.name = "x", .needs = "x", .contiguous = true}};  // dx needs x
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};
constexpr OpDef kOp = checked({.name = "NAME",
                               .formula = "y = x / sqrt(1 + x^2)",
                               .inputs = kInputs,
                               .outputs = kOutputs,
                               .infer = infer,
                               .cpu = {forward_cpu, backward_cpu},
                               .cuda = {forward_cuda, backward_cuda},
                               .plain = {forward_plain, backward_plain},
                               .rule = rule});
constexpr OpTests kTests{.op = "NAME", .samples = samples, .reference = composed};
}  // namespace

ct::Tensor NAME(const ct::Tensor& x) { return ct::dispatch(kOp, {x}); }

CT_OWN_OP(.op = &kOp, .tests = &kTests, .cuda = &kCuda, .bench = bench)
