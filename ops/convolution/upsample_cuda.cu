#include <algorithm>

#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/divider.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/convolution/upsample_internal.h>

// A thread for as many neighbours of a row of the result as one access of 16 bytes holds, forward and back: no two write to
// one place. Images are counted in blockIdx.y, and a thread takes several, so that where it looks is computed once.

namespace ct::convolution::resizing {
namespace {

constexpr int kThreads = 256;

template <class T, bool kBack>
__global__ void __launch_bounds__(kThreads)
    resize_kernel(const __grid_constant__ Grid grid, const T* __restrict__ from, T* __restrict__ to,
                  long long images, bool f16, bool whole) {
  using C = compute_t<T>;
  using Vector = gpu::Vector<T>;
  constexpr int V = Vector::size;
  const int in = kBack ? grid.out_pixels() : grid.in_pixels(),
            out = kBack ? grid.in_pixels() : grid.out_pixels();
  const int width = kBack ? grid.width.in : grid.width.out, runs = (width + V - 1) / V;
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  const int row = static_cast<int>(i / runs), first = static_cast<int>(i % runs) * V;
  if (row >= (kBack ? grid.height.in : grid.height.out)) return;
  // Pixels that the rows and columns read; past the end of a row those of its last.
  Source source{}, sources[V] = {};
  int begin = 0, end = 0, begins[V] = {}, ends[V] = {};
  if constexpr (kBack) {
    begin = grid.height.begin(row), end = grid.height.end(row);
  } else {
    source = grid.height.source(row);
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int column = first + v < width ? first + v : width - 1;
    if constexpr (kBack) {
      begins[v] = grid.width.begin(column), ends[v] = grid.width.end(column);
    } else {
      sources[v] = grid.width.source(column);
    }
  }
  for (long long n = blockIdx.y; n < images; n += gridDim.y) {
    const T* const x = from + n * in;
    const auto read = [x, f16](int at) {
      C value[1];
      gpu::unpack(gpu::Vector<T, 1>::load_readonly(x + at), f16, value);
      return value[0];
    };
    C values[V] = {};
#pragma unroll
    for (int v = 0; v < V; ++v)
      values[v] = kBack ? gathered<C>(grid, row, first + v, begin, end, begins[v], ends[v], read)
                        : resized<C>(grid, source, sources[v], read);
    const Vector packed = gpu::pack<T, V>(values, f16);
    T* const y = to + n * out + static_cast<long long>(row) * width + first;
    if (whole) {
      packed.store(y);
    } else {
      for (int v = 0; v < V && first + v < width; ++v) y[v] = packed[v];
    }
  }
}

// Nearest elements at twice the size, the usual case: a thread has a vector of one row of the result, the one below it, and
// the half vector of the image that they read. So a warp writes whole lines. Rows are counted through all images.
template <class T, bool kBack>
__global__ void __launch_bounds__(kThreads) double_kernel(T* __restrict__ image, T* __restrict__ result,
                                                          gpu::Divider run, unsigned vectors, bool f16) {
  constexpr int V = gpu::Vector<T>::size;
  using Whole = gpu::Vector<T, V>;
  using Pair = gpu::Vector<T, V / 2>;
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= vectors) return;
  T* const x = image + static_cast<long long>(i) * (V / 2);
  T* const upper = result + (static_cast<long long>(run.divide(i)) * run.divisor + i) * V;
  T* const lower = upper + static_cast<long long>(run.divisor) * V;
  compute_t<T> one[V / 2], a[V], b[V];
  if constexpr (kBack) {
    gpu::unpack(Whole::load_streaming(upper), f16, a);
    gpu::unpack(Whole::load_streaming(lower), f16, b);
#pragma unroll
    for (int v = 0; v < V; v += 2) one[v / 2] = a[v] + a[v + 1] + b[v] + b[v + 1];
    gpu::pack<T, V / 2>(one, f16).store(x);
  } else {
    gpu::unpack(Pair::load_streaming(x), f16, one);
#pragma unroll
    for (int v = 0; v < V; ++v) a[v] = one[v / 2];
    const Whole both = gpu::pack<T, V>(a, f16);
    both.store(upper);
    both.store(lower);
  }
}

void run_cuda(bool back, const Grid& grid, const Tensor& from, const Tensor& to) {
  const std::int64_t out = back ? grid.in_pixels() : grid.out_pixels(), images = to.numel() / out;
  const int width = back ? grid.width.in : grid.width.out, rows = back ? grid.height.in : grid.height.out;
  const auto twice = [](const Axis& a) {
    return !a.linear && a.out == 2 * a.in && (a.factor == 0 || a.factor == 2);
  };
  gpu::visit_widths(to.dtype(), [&]<class T>(TypeTag<T>) {
    constexpr int V = gpu::Vector<T>::size;
    const bool aligned = gpu::is_aligned(from.raw_data(), 16) && gpu::is_aligned(to.raw_data(), 16);
    if constexpr (gpu::kFastShapes<T>) {
      const Tensor &image = back ? to : from, &result = back ? from : to;
      const std::int64_t vectors = result.numel() / V / 2;  // of every other row
      if (aligned && grid.width.out % V == 0 && twice(grid.height) && twice(grid.width) &&
          vectors < (std::int64_t{1} << 31)) {
        gpu::launch("upsample2d", back ? double_kernel<T, true> : double_kernel<T, false>,
                    gpu::blocks_for("upsample2d", vectors, kThreads), kThreads, 0,
                    static_cast<T*>(image.raw_data()), static_cast<T*>(result.raw_data()),
                    gpu::Divider(static_cast<std::uint32_t>(grid.width.out / V)), vectors,
                    to.dtype() == DType::f16);
        return;
      }
    }
    const unsigned blocks = gpu::blocks_for("upsample2d", gpu::ceil_div(width, V) * rows, kThreads);
    constexpr std::int64_t kBlocks = 132 * 8 * 4;  // a few for each place that a large GPU has for one
    const std::int64_t shares = std::min<std::int64_t>({images, 65535, gpu::ceil_div(kBlocks, blocks)});
    gpu::launch("upsample2d", back ? resize_kernel<T, true> : resize_kernel<T, false>,
                dim3(blocks, static_cast<unsigned>(shares)), kThreads, 0, grid,
                static_cast<const T*>(from.raw_data()), static_cast<T*>(to.raw_data()), images,
                to.dtype() == DType::f16, aligned && width % V == 0);
  });
}

}  // namespace
}  // namespace ct::convolution::resizing

CT_KERNELS(cuda, upsample, CT_RESIZING_KERNELS(convolution::resizing::run_cuda))
