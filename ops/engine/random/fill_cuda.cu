#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/store_element.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/random/fill.h>

namespace ct::random {
namespace {

using namespace detail;

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    fill_sequence(void* out, DType dtype, std::int64_t n, const Sequence s) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  s.integer ? gpu::store_element(out, dtype, i, std::int64_t{integer_sequence_value(s, i)})
            : gpu::store_element(out, dtype, i, double{sequence_value(s, i, n)});
}

// One thread per Philox block: 4 numbers of 32 bits or 2 of 64. The arithmetic is that of ../engine/random/fill_cpu.cpp,
// operation by operation.
template <class T>
__global__ void __launch_bounds__(kThreads) fill_random(T* out, std::int64_t n, const Draw draw) {
  using C = compute_t<T>;
  constexpr int N = 16 / static_cast<int>(sizeof(C));
  const std::int64_t block = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t first = block * N;
  if (first >= n) return;
  C values[N];
  const C offset = static_cast<C>(draw.offset), scale = static_cast<C>(draw.scale);
  const C high = static_cast<C>(draw.offset + draw.scale);
  const GeneratorState state = draw.state.now();
  gpu::Vector<T, N> result;
  if (draw.kind == Draw::Kind::uniform) {
    uniform_block(state, static_cast<std::uint64_t>(block), values);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (sizeof(T) == 2) values[i] = cut_uniform < std::is_same_v<T, Half> ? 11 : 8 > (values[i]);
      const T value = gpu::from_compute<T>(fma_exact(values[i], scale, offset));
      result.set(i, gpu::to_compute(value) < high ? value : gpu::from_compute<T>(offset));
    }
  } else {
    if (draw.kind == Draw::Kind::normal)
      normal_block(state, static_cast<std::uint64_t>(block), values);
    else
      exponential_block(state, static_cast<std::uint64_t>(block), values);
#pragma unroll
    for (int i = 0; i < N; ++i) result.set(i, gpu::from_compute<T>(fma_exact(values[i], scale, offset)));
  }
  if (first + N <= n) {
    result.store(out + first);
  } else {
    for (int i = 0; i < N && first + i < n; ++i) out[first + i] = result[i];
  }
}

__global__ void __launch_bounds__(kThreads)
    fill_integers(void* out, DType dtype, std::int64_t n, const Draw draw) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n)
    gpu::store_element(
        out, dtype, i,
        std::int64_t{philox_integer(draw.state.now(), static_cast<std::uint64_t>(i), draw.low, draw.high)});
}

void sequence(const Forward& call) {
  const Tensor& dst = call.out();
  const std::int64_t n = dst.numel();
  gpu::launch("arange", fill_sequence, gpu::blocks_for("arange", n, kThreads), kThreads, 0, dst.raw_data(),
              dst.dtype(), n, call.attrs<Sequence>());
}

void draw(const Forward& call) {
  const Tensor& dst = call.out();
  const auto& draw = call.attrs<Draw>();
  const std::int64_t n = dst.numel();
  if (draw.kind == Draw::Kind::integer)
    return gpu::launch("randint", fill_integers, gpu::blocks_for("randint", n, kThreads), kThreads, 0,
                       dst.raw_data(), dst.dtype(), n, draw);
  visit_floating("random", dst.dtype(), [&]<class T>(TypeTag<T>) {
    constexpr int per_thread = 16 / static_cast<int>(sizeof(compute_t<T>));
    gpu::launch("rand", fill_random<T>, gpu::blocks_for("rand", n, kThreads * per_thread), kThreads, 0,
                static_cast<T*>(dst.raw_data()), n, draw);
  });
}

}  // namespace
}  // namespace ct::random

CT_KERNELS(cuda, filling, forward_only("sequence", random::sequence), forward_only("draw", random::draw))
