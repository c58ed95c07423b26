// y = x sigmoid(b x): an op of a program's own, on the CPU, and on CUDA where nvcc compiles it (-x cu).
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops.h>

#include <cmath>
#ifdef __CUDACC__
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/dispatch.h>
#endif

namespace {
using namespace ct;

struct Attrs {
  double b = 1;
};
struct Value {
  template <class C>
  CT_HD static C at(C x, C, C b) {
    return x / (1 + std::exp(-b * x));
  }
};
struct Slope {  // g y' = g (s + b x s (1 - s)), s = sigmoid(b x)
  template <class C>
  CT_HD static C at(C x, C g, C b) {
    const C s = 1 / (1 + std::exp(-b * x));
    return g * (s + b * x * s * (1 - s));
  }
};

#ifdef __CUDACC__
template <class F, class C, class T>
__global__ void each(const T* x, const T* g, T* y, std::int64_t n, C b) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] = T(F::at(C(x[i]), C(g[i]), b));
}
#endif

template <class F>
void run(const char* op, const Tensor& x, const Tensor& g, Tensor& y, double b) {
  visit_floating(op, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = compute_t<T>;
    const T *in = x.data<T>(), *grad = g.data<T>();
    T* out = y.data<T>();
#ifdef __CUDACC__
    if (x.is_cuda()) {
      gpu::launch(op, each<F, C, T>, gpu::blocks_for(op, x.numel(), 256), 256, 0, in, grad, out, x.numel(),
                  C(b));
      return;
    }
#endif
    parallel_for(x.numel(), 1 << 14, [=](std::int64_t i, std::int64_t end) {
      for (; i < end; ++i) out[i] = T(F::at(C(in[i]), C(grad[i]), C(b)));
    });
  });
}

void infer(Infer& c) { c.output(c.in(0).shape(), c.in(0).dtype()); }
void forward(const Forward& f) { run<Value>(f.op.name, f.in(0), f.in(0), f.out(), f.attrs<Attrs>().b); }
void backward(const Backward& g) {
  run<Slope>(g.op.name, g.in(0), g.grad(), g.grad_in(0), g.attrs<Attrs>().b);
}

constexpr InputDef kInputs[] = {{.name = "x", .needs = "x", .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, b)};
constexpr OpDef k_swish = checked({.name = "swish",
                                   .formula = "y = x / (1 + e^(-b x))",
                                   .inputs = kInputs,
                                   .outputs = kOutputs,
                                   .attributes = kAttributes,
                                   .infer = infer,
                                   .cpu = {forward, backward},
#ifdef __CUDACC__
                                   .cuda = {forward, backward},
#endif
                                   .no_rule = "nobody has written it down"});
const bool registered = (register_op(k_swish), true);
}  // namespace
