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

struct Attrs {
  double a = 1;
};

void infer(Infer& c) {
  const double a = c.attrs<Attrs>().a;
  CT_CHECK(a > 0, ValueError, c.op.name, "a is ", a, "; it must be greater than 0");
  c.output(c.in(0).shape(), c.in(0).dtype());
}

// C is the type to compute in: float, or double for f64.
void forward_cpu(const Forward& f) {
  const auto y = [a = f.attrs<Attrs>().a]<class C>(C x) { return 1 / (1 + C(a) * x * x); };
  each_element(f.op.name, f.out(), y, f.in(0));
}
void backward_cpu(const Backward& b) {
  const auto dx = [a = b.attrs<Attrs>().a]<class C>(C x, C y, C g) { return C(-2 * a) * x * y * y * g; };
  each_element(b.op.name, b.grad_in(0), dx, b.in(0), b.out(), b.grad());
}
void forward_cuda(const Forward& f) {
  kCuda.each(f.op.name, "forward", {f.in(0), f.out()}, {f.attrs<Attrs>().a});
}
void backward_cuda(const Backward& b) {
  kCuda.each(b.op.name, "backward", {b.in(0), b.out(), b.grad(), b.grad_in(0)}, {b.attrs<Attrs>().a});
}

// The gradient as ops on the tape, for gradients of gradients; and the op composed of the library's, which in f64 the
// kernels are held to.
void rule(const Backward& b) {
  b.set_grad_in(0, -2 * b.attrs<Attrs>().a * b.in(0) * square(b.out()) * b.grad());
}
std::vector<Tensor> composed(std::span<const Tensor> x, AttrsView attrs) {
  const double a = static_cast<const Attrs*>(attrs.data)->a;
  return {1 / (1 + a * square(x[0]))};
}

std::vector<Sample> samples(SampleMaker& make) {
  return {{{make.normal({3, 5})}, Attrs{}, "odd sizes"},
          {{make.normal({})}, Attrs{5}, "scalar"},
          {{make.normal({0, 4})}, Attrs{}, "empty"}};
}
std::vector<ErrorSample> wrong(SampleMaker& make) {
  return {{{make.normal({2})}, Attrs{0}, "must be greater than 0"}};
}
std::vector<Sample> bench(SampleMaker&) { return {{{randn({1 << 24})}, Attrs{}, "2^24"}}; }

constexpr InputDef kInputs[] = {{.name = "x", .needs = "x y", .contiguous = true}};  // dx needs both
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, a)};
constexpr OpDef kOp = checked({.name = "bump",
                               .formula = "y = 1 / (1 + a x^2)",
                               .inputs = kInputs,
                               .outputs = kOutputs,
                               .attributes = kAttributes,
                               .infer = infer,
                               .cpu = {forward_cpu, backward_cpu},
                               .cuda = {forward_cuda, backward_cuda},
                               .rule = rule});
constexpr OpTests kTests{.op = "bump", .samples = samples, .error_samples = wrong, .reference = composed};
}  // namespace

ct::Tensor bump(const ct::Tensor& x, double a) { return ct::dispatch(kOp, {x}, Attrs{a}); }

CT_OWN_OP(.op = &kOp, .tests = &kTests, .cuda = &kCuda, .bench = bench)
