#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/convolution/pooling_internal.h>

// A thread for each element of the result, forward and back: no two write to one place. Images are counted in
// blockIdx.y.

namespace ct::pooling {
namespace {

constexpr int kThreads = 256;

template <class T, Work work>
__global__ void __launch_bounds__(kThreads)
    pool_kernel(Windows w, const T* from, std::int64_t* indices, T* to, long long images) {
  using C = compute_t<T>;
  const int in = work == Work::gathered ? w.out_pixels() : w.in_pixels();
  const int out = work == Work::gathered ? w.in_pixels() : w.out_pixels();
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= static_cast<unsigned>(out)) return;
  const int width = work == Work::gathered ? w.width.in : w.width.out;
  const int row = static_cast<int>(i) / width, column = static_cast<int>(i) % width;
  for (long long n = blockIdx.y; n < images; n += gridDim.y) {
    const T* const x = from + n * in;
    std::int64_t* const index = indices ? indices + n * w.out_pixels() : nullptr;
    const auto read = [x](int at) { return gpu::to_compute(x[at]); };
    C value;
    if constexpr (work == Work::largest) {
      std::int64_t place;
      value = largest<C>(w, row, column, read, place);
      index[i] = place;
    } else if constexpr (work == Work::pooled) {
      value = pooled<C>(w, row, column, read, index);
    } else {
      value = gathered<C>(w, row, column, read, index);
    }
    to[n * out + i] = gpu::from_compute<T>(value);
  }
}

void run_cuda(Work work, const Windows& w, const Tensor& from, const Tensor& indices, const Tensor& to) {
  const std::int64_t out = work == Work::gathered ? w.in_pixels() : w.out_pixels(), images = to.numel() / out;
  const dim3 grid(gpu::blocks_for("pool2d", out, kThreads),
                  static_cast<unsigned>(images < 65535 ? images : 65535));
  visit_floating("pool2d", to.dtype(), [&]<class T>(TypeTag<T>) {
    const auto kernel = work == Work::largest  ? pool_kernel<T, Work::largest>
                        : work == Work::pooled ? pool_kernel<T, Work::pooled>
                                               : pool_kernel<T, Work::gathered>;
    gpu::launch("pool2d", kernel, grid, kThreads, 0, w, static_cast<const T*>(from.raw_data()),
                indices.defined() ? indices.data<std::int64_t>() : nullptr, static_cast<T*>(to.raw_data()),
                images);
  });
}

}  // namespace
}  // namespace ct::pooling

CT_KERNELS(cuda, pooling, CT_POOLING_KERNELS(pooling::run_cuda))
