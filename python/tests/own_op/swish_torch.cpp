// The same for PyTorch's extension loader: the function, its gradient, and the binding.
#include <torch/extension.h>
#ifdef __CUDACC__
#include <ATen/cuda/CUDAContext.h>
#endif
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include <cmath>

namespace {

struct Value {
  template <class C>
  C10_HOST_DEVICE static C at(C x, C, C b) {
    return x / (1 + std::exp(-b * x));
  }
};
struct Slope {
  template <class C>
  C10_HOST_DEVICE static C at(C x, C g, C b) {
    const C s = 1 / (1 + std::exp(-b * x));
    return g * (s + b * x * s * (1 - s));
  }
};

#ifdef __CUDACC__
template <class F, class C, class T>
__global__ void each(const T* x, const T* g, T* y, int64_t n, C b) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] = T(F::at(C(x[i]), C(g[i]), b));
}
#endif

template <class F>
torch::Tensor run(const torch::Tensor& given, const torch::Tensor& cotangent, double b) {
  TORCH_CHECK(given.is_floating_point(), "swish: a floating tensor is wanted");
  const torch::Tensor x = given.contiguous(), g = cotangent.contiguous();
  torch::Tensor y = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "swish", [&] {
    using T = scalar_t;
    using C = at::opmath_type<T>;
    const T *in = x.const_data_ptr<T>(), *grad = g.const_data_ptr<T>();
    T* out = y.data_ptr<T>();
    const int64_t n = x.numel();
#ifdef __CUDACC__
    if (x.is_cuda()) {
      if (n > 0)
        each<F, C, T><<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(in, grad, out, n, C(b));
      C10_CUDA_KERNEL_LAUNCH_CHECK();
      return;
    }
#endif
    at::parallel_for(0, n, 1 << 14, [=](int64_t i, int64_t end) {
      for (; i < end; ++i) out[i] = T(F::at(C(in[i]), C(grad[i]), C(b)));
    });
  });
  return y;
}

class Swish : public torch::autograd::Function<Swish> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x, double b) {
    context->save_for_backward({x});
    context->saved_data["b"] = b;
    return run<Value>(x, x, b);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    return {run<Slope>(context->get_saved_variables()[0], grads[0], context->saved_data["b"].toDouble()), {}};
  }
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("swish", [](const torch::Tensor& x, double b) { return Swish::apply(x, b); });
}
