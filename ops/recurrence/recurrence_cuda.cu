#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/recurrence/steps_internal.h>
#include <cotangent/ops/engine/map/lane.cuh>

// On CUDA a step is a product and one small kernel, a thread for each element of the state.

namespace ct::recurrence {
namespace {

constexpr int kThreads = 128;

// One element of a row. Functions may be approximate where the result is rounded to 16 bits.
template <class T>
struct At {
  using X = map::Lane<compute_t<T>, sizeof(T) == 2>;
  std::int64_t column, hidden;
  bool f16;

  template <class S>
  __device__ __forceinline__ X load(const S* row, int k) const {
    compute_t<S> value[1];
    gpu::unpack(gpu::Vector<S, 1>::load(row + k * hidden + column), f16, value);
    return value[0];
  }
  template <class S>
  __device__ __forceinline__ void store(X x, S* row, int k) const {
    const compute_t<S> value[1] = {x.v};
    gpu::pack<S, 1>(value, f16).store(row + k * hidden + column);
  }
};

template <class C, class T, bool kBack>
__global__ void __launch_bounds__(kThreads) step_kernel(Step s, bool f16) {
  const std::int64_t all = s.rows * s.hidden, stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < all;
       i += stride) {
    const std::int64_t row = i / s.hidden;
    const At<T> at{i - row * s.hidden, s.hidden, f16};
    if constexpr (kBack)
      make_step_back<C, T>(s, row, at);
    else
      make_step<C, T>(s, row, at);
  }
}

template <class C, bool kBack>
void step(const Step& s) {
  gpu::visit_widths(s.dtype, [&]<class T>(TypeTag<T>) {
    gpu::launch("recurrence", step_kernel<C, T, kBack>, gpu::grid_stride_blocks(s.rows * s.hidden, kThreads),
                kThreads, 0, s, s.dtype == DType::f16);
  });
}

template <class C>
const Steps kSteps{gemm::cuda_backend, INT64_MAX, step<C, false>, step<C, true>};

template <class C>
void forward_cuda(const Forward& f) {
  forward(f, kCell<C>, kSteps<C>);
}
template <class C>
void backward_cuda(const Backward& b) {
  backward(b, kCell<C>, kSteps<C>);
}

}  // namespace
}  // namespace ct::recurrence

CT_KERNELS(cuda, recurrence, CT_RECURRENCE_KERNELS(cuda))
