#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/reduce/kinds_internal.h>

// The gradients of the reductions on CUDA, all but those of sum and mean: one elementwise kernel that finds
// for each element the output it went into. A thread takes the elements of one 16-byte load; where these lie
// side by side in the innermost group of axes, their outputs are found by one walk through the axes. The kind
// is known at run time only: all threads branch alike, once for each load.

namespace ct::reduce {
namespace {

struct Place {
  std::int64_t output = 0, number = 0;
};

__device__ Place locate(const Spread& spread, std::int64_t i) {
  Place place;
  for (int a = 0; a < spread.rank; ++a) {
    std::int64_t coordinate = i;
    if (a + 1 < spread.rank) {
      // 64-bit divisions take several times as long as 32-bit ones.
      const std::int64_t next = i <= 0xffffffffll && spread.size[a] <= 0xffffffffll
                                    ? static_cast<unsigned>(i) / static_cast<unsigned>(spread.size[a])
                                    : i / spread.size[a];
      coordinate = i - next * spread.size[a];
      i = next;
    }
    place.output += coordinate * spread.output_stride[a];
    place.number += coordinate * spread.reduced_stride[a];
  }
  return place;
}

// dx[j] of N elements that lie side by side; the steps are those of g, y and aux.
template <Gradient kind, int N, class C>
__device__ __forceinline__ void gradients(const C (&x)[N], const C* g, const C* y, const C* aux,
                                          std::int64_t step, C scale, C p, C (&dx)[N]) {
#pragma unroll
  for (int j = 0; j < N; ++j)
    dx[j] =
        gradient_of<kind>(x[j], g[j * step], y ? y[j * step] : C(0), aux ? aux[j * step] : C(0), scale, p);
}

template <int N, class T>
__global__ void __launch_bounds__(256)
    gradient_kernel(Gradient kind, const T* __restrict__ x, const accumulate_t<T>* __restrict__ g,
                    const accumulate_t<T>* __restrict__ y, const void* __restrict__ aux,
                    accumulate_t<T> scale, accumulate_t<T> p, T* __restrict__ dx, bool f16,
                    std::int64_t packs, Spread spread) {
  using C = accumulate_t<T>;
  using Pack = gpu::Vector<T, N>;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t step = spread.output_stride[0];
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < packs;
       i += stride) {
    const Place place = locate(spread, i * N);
    const C* const gs = g + place.output;
    C in[N], out[N];
    if (kind == Gradient::position) {
      const auto* winner = static_cast<const std::int64_t*>(aux) + place.output;
#pragma unroll
      for (int j = 0; j < N; ++j)
        out[j] = winner[j * step] == place.number + j * spread.reduced_stride[0] ? gs[j * step] : C(0);
    } else {
      gpu::unpack(Pack::load_streaming(x + i * N), f16, in);
      const C* const ys = y ? y + place.output : nullptr;
      const C* const as = aux ? static_cast<const C*>(aux) + place.output : nullptr;
#define CT_GRADIENT(k) \
  case Gradient::k: gradients<Gradient::k>(in, gs, ys, as, step, scale, p, out); break
      switch (kind) {
        CT_GRADIENT(extremum);
        CT_GRADIENT(product);
        CT_GRADIENT(variance);
        CT_GRADIENT(deviation);
        CT_GRADIENT(norm1);
        CT_GRADIENT(norm2);
        CT_GRADIENT(norm_extremum);
        CT_GRADIENT(norm);
        CT_GRADIENT(log_sum_exp);
        default: break;
      }
#undef CT_GRADIENT
    }
    gpu::pack<T>(out, f16).store(dx + i * N);
  }
}

}  // namespace

void gradient_cuda(const GradientCall& call) {
  gpu::visit_widths(call.dx.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = accumulate_t<T>;
    const Spread spread = make_spread(call.dx.shape(), call.mask);
    const auto at = [](const Tensor& t) { return t.defined() ? t.raw_data() : nullptr; };
    const auto run = [&]<int N>(std::integral_constant<int, N>) {
      const std::int64_t count = call.dx.numel() / N;
      gpu::launch("reduce_backward", gradient_kernel<N, T>, dim3(gpu::grid_stride_blocks(count, 256)),
                  dim3(256), 0, call.kind, static_cast<const T*>(at(call.x)),
                  static_cast<const C*>(at(call.g)), static_cast<const C*>(at(call.y)),
                  static_cast<const void*>(at(call.aux)), static_cast<C>(call.settings.scale),
                  static_cast<C>(call.settings.p), static_cast<T*>(call.dx.raw_data()),
                  call.dx.dtype() == DType::f16, count, spread);
    };
    if constexpr (gpu::kFastShapes<T>) {
      constexpr int n = gpu::Vector<T>::size;
      if (spread.size[0] % n == 0 && gpu::is_aligned(at(call.x), 16) &&
          gpu::is_aligned(call.dx.raw_data(), 16))
        return run(std::integral_constant<int, n>{});
    }
    run(std::integral_constant<int, 1>{});
  });
}

}  // namespace ct::reduce
