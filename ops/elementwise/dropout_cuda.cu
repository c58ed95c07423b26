#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/elementwise/dropout_internal.h>

// dropout on CUDA: one kernel for both directions. A thread takes the elements of one 16-byte load, whose
// numbers start at a multiple of 4, and draws the Philox blocks of four words that belong to them.

namespace ct::dropout_kernels {
namespace {

struct Mask {
  GeneratorState draw;
  std::uint32_t last;  // words up to this one are dropped
  bool some;           // false: nothing is
};

__device__ __forceinline__ bool dropped(const Mask& mask, std::uint32_t word) {
  return mask.some && word <= mask.last;
}

template <class T, int N>
__global__ void __launch_bounds__(256)
    packs_kernel(const T* __restrict__ x, T* __restrict__ y, std::int64_t n, Mask mask, compute_t<T> scale) {
  using C = compute_t<T>;
  using Pack = gpu::Packed<T, N>;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n / N;
       i += stride) {
    C v[N];
    Pack::load_streaming(x + i * N).to_compute(v);
    if constexpr (N % 4 == 0) {
#pragma unroll
      for (int b = 0; b < N / 4; ++b) {
        const PhiloxBlock block = philox_block(mask.draw, static_cast<std::uint64_t>(i * (N / 4) + b));
#pragma unroll
        for (int j = 0; j < 4; ++j) v[4 * b + j] = dropped(mask, block.word[j]) ? C(0) : v[4 * b + j] * scale;
      }
    } else {  // two doubles: half a block
      const PhiloxBlock block = philox_block(mask.draw, static_cast<std::uint64_t>(i * N / 4));
      const bool upper = i * N % 4 != 0;
      v[0] = dropped(mask, upper ? block.word[2] : block.word[0]) ? C(0) : v[0] * scale;
      v[1] = dropped(mask, upper ? block.word[3] : block.word[1]) ? C(0) : v[1] * scale;
    }
    Pack::from_compute(v).store(y + i * N);
  }
}

// One element per thread: for tensors that are not whole 16-byte vectors.
template <class T>
__global__ void __launch_bounds__(256)
    single_kernel(const T* __restrict__ x, T* __restrict__ y, std::int64_t n, Mask mask, compute_t<T> scale) {
  using C = compute_t<T>;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    const C v = gpu::to_compute(x[i]);
    const bool drop = dropped(mask, philox_word(mask.draw, static_cast<std::uint64_t>(i)));
    y[i] = gpu::from_compute<T>(drop ? C(0) : v * scale);
  }
}

}  // namespace

void apply_cuda(const Tensor& x, const Tensor& y, const Rule& rule) {
  if (y.numel() == 0) return;
  const Mask mask{rule.draw, static_cast<std::uint32_t>(rule.threshold > 0 ? rule.threshold - 1 : 0),
                  rule.threshold > 0};
  visit_floating("dropout", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int n = gpu::Packed<T>::size;
    const auto scale = static_cast<compute_t<T>>(rule.scale);
    const T* from = x.data<T>();
    T* to = y.data<T>();
    const bool packs = gpu::is_aligned(from, 16) && gpu::is_aligned(to, 16) && y.numel() % n == 0;
    if (packs) {
      gpu::launch("dropout", packs_kernel<T, n>, dim3(gpu::grid_stride_blocks(y.numel() / n, 256)), dim3(256),
                  0, from, to, y.numel(), mask, scale);
    } else {
      gpu::launch("dropout", single_kernel<T>, dim3(gpu::grid_stride_blocks(y.numel(), 256)), dim3(256), 0,
                  from, to, y.numel(), mask, scale);
    }
  });
}

void forward_cuda(const Forward& f) { apply_cuda(f.in(0), f.out(), Rule(f.attrs<Attrs>())); }

void backward_cuda(const Backward& b) {
  if (!b.needs(0)) return;
  apply_cuda(b.grad(), b.grad_in(0), Rule(b.attrs<Attrs>()));
}

}  // namespace ct::dropout_kernels

CT_KERNELS(cuda, dropout, {"dropout", dropout_kernels::forward_cuda, dropout_kernels::backward_cuda})
