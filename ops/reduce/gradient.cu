#include <cotangent/ops/reduce/cuda_forward_internal.cuh>

// The gradients of the reductions on CUDA, all but those of sum and mean: one elementwise kernel that finds
// for each element the output it went into. A thread takes the elements of one 16-byte load; where these lie
// side by side in the innermost group of axes, their outputs are found by one walk through the axes.

namespace ct::reduction {
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

template <Gradient kind, int N, class T>
__global__ void __launch_bounds__(256)
    gradient_kernel(const T* __restrict__ x, const fold_t<T>* __restrict__ g, const fold_t<T>* __restrict__ y,
                    const void* __restrict__ aux, fold_t<T> scale, fold_t<T> p, T* __restrict__ dx,
                    std::int64_t packs, Spread spread) {
  using C = fold_t<T>;
  using Pack = gpu::Packed<T, N>;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < packs;
       i += stride) {
    const Place place = locate(spread, i * N);
    C in[N] = {}, out[N];
    if constexpr (kind != Gradient::position) Pack::load_streaming(x + i * N).to_compute(in);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const std::int64_t k = place.output + j * spread.output_stride[0];
      if constexpr (kind == Gradient::position) {
        const std::int64_t number = place.number + j * spread.reduced_stride[0];
        out[j] = static_cast<const std::int64_t*>(aux)[k] == number ? g[k] : C(0);
      } else {
        out[j] = gradient_of<kind>(in[j], g[k], y ? y[k] : C(0), aux ? static_cast<const C*>(aux)[k] : C(0),
                                   scale, p);
      }
    }
    Pack::from_compute(out).store(dx + i * N);
  }
}

template <Gradient kind, class T>
void launch(const GradientCall& call) {
  using C = fold_t<T>;
  constexpr int n = gpu::Packed<T>::size;
  const Spread spread = make_spread(call.dx.shape(), call.mask);
  const auto at = [](const Tensor& t) { return t.defined() ? t.raw_data() : nullptr; };
  const bool packs =
      spread.size[0] % n == 0 && gpu::is_aligned(at(call.x), 16) && gpu::is_aligned(call.dx.raw_data(), 16);
  const std::int64_t count = call.dx.numel() / (packs ? n : 1);
  const auto kernel = packs ? gradient_kernel<kind, n, T> : gradient_kernel<kind, 1, T>;
  gpu::launch("reduce_backward", kernel, dim3(gpu::grid_stride_blocks(count, 256)), dim3(256), 0,
              static_cast<const T*>(at(call.x)), static_cast<const C*>(at(call.g)),
              static_cast<const C*>(at(call.y)), static_cast<const void*>(at(call.aux)),
              static_cast<C>(call.settings.scale), static_cast<C>(call.settings.p),
              static_cast<T*>(call.dx.raw_data()), count, spread);
}

template <class F>
Side side_of(const F& fold, const Tensor& x, const Plan& plan) {
  using C = typename F::C;
  const Side side{Tensor::allocate({plan.outputs}, dtype_of<C>, x.device()),
                  Tensor::allocate({plan.outputs}, dtype_of<C>, x.device())};
  const Out out{side.value.raw_data(), dtype_of<C>, false, side.aux.raw_data()};
  visit_floating("reduce", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<fold_t<T>, C>) run_fold<T>("reduce_backward", fold, plan, x, out);
  });
  return side;
}

}  // namespace

void gradient_cuda(const GradientCall& call) {
  visit_floating("reduce", call.dx.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    switch (call.kind) {
      case Gradient::extremum: return launch<Gradient::extremum, T>(call);
      case Gradient::position: return launch<Gradient::position, T>(call);
      case Gradient::product: return launch<Gradient::product, T>(call);
      case Gradient::variance: return launch<Gradient::variance, T>(call);
      case Gradient::deviation: return launch<Gradient::deviation, T>(call);
      case Gradient::norm1: return launch<Gradient::norm1, T>(call);
      case Gradient::norm2: return launch<Gradient::norm2, T>(call);
      case Gradient::norm_extremum: return launch<Gradient::norm_extremum, T>(call);
      case Gradient::norm: return launch<Gradient::norm, T>(call);
      case Gradient::log_sum_exp: return launch<Gradient::log_sum_exp, T>(call);
    }
  });
}

Side side_cuda(const Tensor& x, AxisMask mask, Gradient kind, bool smallest) {
  Tensor source = x;
  const Plan plan = plan_or_pack(source, mask, Order::any, Repeats::keep);
  const auto run = [&](auto element) {
    using C = decltype(element);
    if (kind == Gradient::product) return side_of(ProdFold<C>{true}, source, plan);
    const Compare compare = kind == Gradient::extremum ? Compare::value : Compare::absolute;
    return side_of(TiesFold<C>{{compare, smallest}}, source, plan);
  };
  return x.dtype() == DType::f64 ? run(double{}) : run(float{});
}

}  // namespace ct::reduction
