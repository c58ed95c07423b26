#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/reduce/reduce.h>

#include <examples/common/svg.h>
#include <gpu.h>
#include <softsign.cuh>

#include <cmath>

// Chapter 9, what of it needs a GPU: the first kernel, strides, lanes that part, bytes on their way, occupancy.

namespace {

void first() {
  const ct::Tensor x = ct::linspace(-5, 5, 1000, {.device = ct::cuda(0)});
  ct::Tensor y = ct::empty({1000}, {.device = ct::cuda(0)});
  book::run_softsign(x, y);
  book::claim(ct::amax(ct::abs(y - ct::softsign(x))).item<float>() < 1e-6f,
              "the kernel's numbers are those of ct::softsign");
}

/// y_i = x_(i stride)
__global__ void every(const float* x, float* y, long n, long stride) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i * stride];
}

void strides() {
  book::section("strides");
  const long n = 1L << 23;
  const ct::Tensor x = ct::ones({32 * n}, {.device = ct::cuda(0)});
  ct::Tensor y = ct::empty({n}, {.device = ct::cuda(0)});
  svg::Curve wanted{"wanted", "#36a", {}, {}}, moved{"moved", "#c33", {}, {}};
  std::printf("every   sectors a warp     ms   GB/s wanted   GB/s moved\n");
  double first = 0, last = 0;
  for (const long stride : {1L, 2L, 4L, 8L, 16L, 32L}) {
    const double ms = book::gpu_ms([&] {
      ct::gpu::launch("every", every, static_cast<unsigned>(n / 256), 256, 0, x.data<float>(),
                      y.data<float>(), n, stride);
    });
    const long sectors = std::min(32L, 4 * stride);
    const double useful = 8e-6 * static_cast<double>(n) / ms,
                 all = (sectors + 4) * 1e-6 * static_cast<double>(n) / ms;
    std::printf("%4ld. %14ld %11.4f %11.0f %12.0f\n", stride, sectors, ms, useful, all);
    wanted.x.push_back(std::log2(static_cast<double>(stride))), wanted.y.push_back(useful);
    moved.x.push_back(wanted.x.back()), moved.y.push_back(all);
    (stride == 1 ? first : last) = useful;
  }
  book::claim(last < first / 3, "a stride costs what it fetches in vain");
  book::figure("09-strides", svg::chart("y[i] = x[i stride]", "log2 of the stride", "GB/s", {wanted, moved}));
}

/// A copy by blocks that stay and walk, one load of T on its way for each thread.
template <class T>
__global__ void walk(const T* x, T* y, long n) {
#pragma unroll 1
  for (long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += static_cast<long>(gridDim.x) * blockDim.x)
    y[i] = x[i];
}

template <class T>
double copy_rate(const ct::Tensor& x, ct::Tensor& y, int blocks) {
  const long n = x.numel() * 4 / static_cast<long>(sizeof(T));
  const double ms = book::gpu_ms([&] {
    ct::gpu::launch("walk", walk<T>, static_cast<unsigned>(blocks * ct::gpu::multiprocessors()), 256, 0,
                    static_cast<const T*>(x.raw_data()), static_cast<T*>(y.raw_data()), n);
  });
  return 8e-6 * static_cast<double>(x.numel()) / ms;
}

void under_way() {
  book::section("bytes-under-way");
  const ct::Tensor x = ct::ones({1 << 26}, {.device = ct::cuda(0)});
  ct::Tensor y = ct::empty({1 << 26}, {.device = ct::cuda(0)});
  std::printf("blocks of 256 a multiprocessor   4 bytes a thread   16 bytes a thread\n");
  for (const int blocks : {1, 2, 4, 8})
    std::printf("%30d %8.1f KB %4.0f GB/s %7.1f KB %4.0f GB/s\n", blocks, 0.256 * 4 * blocks,
                copy_rate<float>(x, y, blocks), 0.256 * 16 * blocks, copy_rate<float4>(x, y, blocks));
}

/// Lanes of `ways` kinds, each of which makes 2048 multiply-adds of its own: neighbours are of different kinds, or, with
/// `together`, those of a warp of one.
__global__ void part(float* y, int ways, bool together) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x),
            kind = (together ? i / 32 : i) % ways;
  float x = static_cast<float>(kind);
  for (int way = 0; way < ways; ++way)
    if (kind == way)
      for (int n = 0; n < 2048; ++n) x = fmaf(x, 0.5f, static_cast<float>(way));
  y[i] = x;
}

void divergence() {
  book::section("divergence");
  const int threads = 256, blocks = 8 * ct::gpu::multiprocessors();
  ct::Tensor y = ct::empty({threads * blocks}, {.device = ct::cuda(0)}), z = ct::empty_like(y);
  const auto ms = [&](ct::Tensor& to, int ways, bool together) {
    return book::gpu_ms([&] {
      ct::gpu::launch("part", part, static_cast<unsigned>(blocks), threads, 0, to.data<float>(), ways,
                      together);
    });
  };
  const double one = ms(y, 1, false);
  double neighbours = 0, warps = 0;
  std::printf("ways   neighbours differ: ms, times   warps differ: ms, times\n");
  for (const int ways : {1, 2, 4, 8, 16, 32}) {
    neighbours = ms(y, ways, false), warps = ms(z, ways, true);
    std::printf("%4d %20.4f %8.1f %15.4f %6.1f\n", ways, neighbours, neighbours / one, warps, warps / one);
  }
  book::claim(neighbours > 8 * warps, "a warp pays for each way that one of its lanes takes");
}

/// A copy whose threads ask for N numbers before they store the first.
template <int N>
__global__ void __launch_bounds__(256) keep(const float* x, float* y) {
  const long first = blockIdx.x * 256L * N + threadIdx.x;
  float v[N];
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = x[first + 256 * i];
#pragma unroll
  for (int i = 0; i < N; ++i) y[first + 256 * i] = v[i];
}

template <int N>
void occupancy_row(const ct::Tensor& x, ct::Tensor& y) {
  int blocks = 0;
  cudaFuncAttributes kernel;
  CT_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, keep<N>, 256, 0));
  CT_CUDA(cudaFuncGetAttributes(&kernel, keep<N>));
  y.fill_(0);
  const double ms = book::gpu_ms([&] {
    ct::gpu::launch("keep", keep<N>, static_cast<unsigned>(x.numel() / (256 * N)), 256, 0, x.data<float>(),
                    y.data<float>());
  });
  std::printf("%17d %11d %9d %9.0f %% %9.1f KB %7.0f\n", N, kernel.numRegs, 256 * blocks,
              100.0 * 256 * blocks / 2048, 0.256 * blocks * N * 4,
              8e-6 * static_cast<double>(x.numel()) / ms);
  book::claim(y.equal(x), "a copy copies");
}

void occupancy() {
  book::section("occupancy");
  const ct::Tensor x = ct::ones({1 << 26}, {.device = ct::cuda(0)});
  ct::Tensor y = ct::empty({1 << 26}, {.device = ct::cuda(0)});
  std::printf("numbers a thread   registers   threads   occupancy   under way    GB/s\n");
  occupancy_row<1>(x, y), occupancy_row<4>(x, y), occupancy_row<16>(x, y);
  occupancy_row<64>(x, y), occupancy_row<128>(x, y);
}

void chapter() {
  first();
  book::section("machine");
  book::machine();
  strides();
  divergence();
  under_way();
  occupancy();
}

}  // namespace

int main() { return book::run(chapter); }
