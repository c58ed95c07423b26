#include <cmath>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/op/op_def.h>

namespace ct {
namespace {
constexpr std::int64_t kGrain = 1 << 15;

void squash_forward(const Forward& f) {
  const Tensor& x = f.in(0);
  visit_floating(f.op.name, x.dtype(), [&]<class T>(TypeTag<T>) {
    const T* in = x.data<T>();
    T* out = f.out().data<T>();
    parallel_for(x.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const compute_t<T> v = in[i];
        out[i] = T(v / (1 + std::abs(v)));
      }
    });
  });
}

// dx = g / (1 + |x|)^2
void squash_backward(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor &x = b.in(0), &cotangent = b.grad();
  visit_floating(b.op.name, x.dtype(), [&]<class T>(TypeTag<T>) {
    const T *in = x.data<T>(), *g = cotangent.data<T>();
    T* dx = b.grad_in(0).data<T>();
    parallel_for(x.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const compute_t<T> d = 1 + std::abs(static_cast<compute_t<T>>(in[i]));
        dx[i] = T(static_cast<compute_t<T>>(g[i]) / (d * d));
      }
    });
  });
}

}  // namespace
}  // namespace ct

CT_KERNELS(cpu, squash, {"squash", squash_forward, squash_backward})
