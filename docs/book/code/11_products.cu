#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops.h>
#include <cotangent/core/cuda/mma/ptx.cuh>

#include <book.h>
#include <gpu.h>

// Chapter 11 on a GPU: a product in tiles of several sizes, one by tensor cores, and what is done to a result before it is
// stored.

namespace {

using ct::Tensor;

/// C[m, n] = finish(A[m, k] B[k, n], column): a block of 16 x 16 threads has 16 R x 16 R numbers of C, a thread R x R of
/// them, 16 apart. m and n are multiples of 16 R, k of 16.
template <int R, class Finish>
__global__ void __launch_bounds__(256)
    product(const float* a, const float* b, float* c, int n, int k, Finish finish) {
  __shared__ float tile_a[16][16 * R + 2],
      tile_b[16][16 * R];  // by columns; + 2 puts a warp's writes into 32 banks
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const long i0 = blockIdx.y * 16L * R, j0 = blockIdx.x * 16L * R;
  float sum[R][R] = {};
  for (long p0 = 0; p0 < k; p0 += 16) {
    for (int e = 0; e < 16 * R; e += 16) {
      tile_a[x][y + e] = a[(i0 + y + e) * k + p0 + x];
      tile_b[y][x + e] = b[(p0 + y) * n + j0 + x + e];
    }
    __syncthreads();  // the tiles are whole
    for (int p = 0; p < 16; ++p) {
      float from_a[R], from_b[R];
      for (int e = 0; e < R; ++e) from_a[e] = tile_a[p][y + 16 * e], from_b[e] = tile_b[p][x + 16 * e];
      for (int i = 0; i < R; ++i)
        for (int j = 0; j < R; ++j) sum[i][j] += from_a[i] * from_b[j];
    }
    __syncthreads();  // all have read them
  }
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < R; ++j) {
      const long column = j0 + x + 16 * j;
      c[(i0 + y + 16 * i) * n + column] = finish(sum[i][j], column);
    }
}

struct Same {
  __device__ float operator()(float sum, long) const { return sum; }
};

template <int R, class Finish>
void launch_product(const Tensor& a, const Tensor& b, Tensor& c, Finish finish) {
  const auto m = static_cast<unsigned>(c.size(0)), n = static_cast<unsigned>(c.size(1));
  ct::gpu::launch("product", product<R, Finish>, dim3(n / (16 * R), m / (16 * R)), dim3(16, 16), 0,
                  a.data<float>(), b.data<float>(), c.data<float>(), static_cast<int>(n),
                  static_cast<int>(a.size(1)), finish);
}

/// The largest difference of two tensors, by the largest number of the second.
double difference(const Tensor& a, const Tensor& b) {
  const Tensor wide = b.to(ct::f32);
  return ct::amax(ct::abs(a.to(ct::f32) - wide)).item() / ct::amax(ct::abs(wide)).item();
}

void tiles() {
  book::section("tiles");
  constexpr std::int64_t n = 4096;
  const Tensor a = ct::randn({n, n}, {.device = ct::cuda(0)}), b = ct::randn({n, n}, {.device = ct::cuda(0)});
  const Tensor library = ct::matmul(a, b);
  Tensor c = ct::empty({n, n}, {.device = ct::cuda(0)});
  const double operations = 2.0 * n * n * n;
  std::printf("f32, 4096 x 4096 x 4096\n");
  const auto row = [&](const char* name, double ms, double error) {
    std::printf("%-10s %8.3f ms %6.1f TFLOP/s   off from cuBLASLt by %.0e\n", name, ms, operations / ms / 1e9,
                error);
    book::claim(error < 1e-5, std::string(name) + " is cuBLASLt's product, but for rounding");
  };
  const auto of = [&]<int R>(const char* name, std::integral_constant<int, R>) {
    c.fill_(NAN);
    const double ms = book::gpu_ms([&] { launch_product<R>(a, b, c, Same{}); });
    row(name, ms, difference(c, library));
  };
  of("r = 1", std::integral_constant<int, 1>());
  of("r = 2", std::integral_constant<int, 2>());
  of("r = 4", std::integral_constant<int, 4>());
  of("r = 8", std::integral_constant<int, 8>());
  row("cuBLASLt", book::gpu_ms([&] { ct::matmul(a, b); }), 0);
}

/// y[m, n] = x[m, k] w[n, k]^T in bf16 with sums of f32: a warp has 64 x 32 numbers of y, in 4 x 4 results of 16 x 8. Its
/// operands come as they are from memory, two numbers a word: element e of a lane's part is where of_a() and of_b() of
/// the host's program say. m is a multiple of 64, n of 128, k of 16.
__global__ void __launch_bounds__(128)
    warp_products(const std::uint16_t* x, const std::uint16_t* w, std::uint16_t* y, int n, int k) {
  const int lane = static_cast<int>(threadIdx.x), down = lane / 4, across = lane % 4 * 2;
  const long row = blockIdx.y * 64L, column = blockIdx.x * 128L + threadIdx.y * 32L;
  const auto word = [](const std::uint16_t* at) { return *reinterpret_cast<const std::uint32_t*>(at); };
  float sum[4][4][4] = {};
  for (long p = 0; p < k; p += 16) {
    std::uint32_t a[4][4], b[4][2];
    for (int i = 0; i < 4; ++i)
      for (int e = 0; e < 4; ++e)
        a[i][e] = word(x + (row + 16 * i + down + e % 2 * 8) * k + p + across + e / 2 * 8);
    for (int j = 0; j < 4; ++j)
      for (int e = 0; e < 2; ++e) b[j][e] = word(w + (column + 8 * j + down) * k + p + across + e * 8);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) ct::mma::multiply_add<ct::BFloat16>(sum[i][j], a[i], b[j][0], b[j][1]);
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<std::uint32_t*>(y + (row + 16 * i + down + 8 * half) * n + column + 8 * j +
                                          across) =
            ct::mma::pack<ct::BFloat16>(sum[i][j][2 * half], sum[i][j][2 * half + 1]);
}

void tensor_cores() {
  book::section("tensor-cores");
  constexpr std::int64_t n = 4096;
  const Tensor x = ct::randn({n, n}, {.device = ct::cuda(0)}).to(ct::bf16),
               w = ct::randn({n, n}, {.device = ct::cuda(0)}).to(ct::bf16);
  const Tensor library = ct::linear(x, w);
  Tensor y = ct::empty({n, n}, {.dtype = ct::bf16, .device = ct::cuda(0)});
  y.fill_(NAN);
  const double ms = book::gpu_ms([&] {
    ct::gpu::launch("warp_products", warp_products, dim3(n / 128, n / 64), dim3(32, 4), 0,
                    reinterpret_cast<const std::uint16_t*>(x.data<ct::BFloat16>()),
                    reinterpret_cast<const std::uint16_t*>(w.data<ct::BFloat16>()),
                    reinterpret_cast<std::uint16_t*>(y.data<ct::BFloat16>()), static_cast<int>(n),
                    static_cast<int>(n));
  });
  const double library_ms = book::gpu_ms([&] { ct::linear(x, w); });
  const double operations = 2.0 * n * n * n, error = difference(y, library);
  std::printf("bf16, 4096 x 4096 x 4096\n");
  std::printf("mma, operands from memory %8.3f ms %6.1f TFLOP/s   off from cuBLASLt by %.0e\n", ms,
              operations / ms / 1e9, error);
  std::printf("cuBLASLt                  %8.3f ms %6.1f TFLOP/s\n", library_ms,
              operations / library_ms / 1e9);
  book::claim(error < 1e-2,
              "tensor cores by hand give cuBLASLt's product, but for the rounding of the result");
}

// --- bias and ReLU: in passes of their own, and before the result is stored ---

struct BiasRelu {
  const float* bias;
  __device__ float operator()(float sum, long column) const { return fmaxf(sum + bias[column], 0); }
};

template <class Change>
__global__ void pass(float* y, int n, Change change) {
  const long at = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  y[at] = change(y[at], at % n);
}

void fused() {
  book::section("fused");
  constexpr std::int64_t m = 16384, n = 8192, k = 256;
  const Tensor x = ct::randn({m, k}, {.device = ct::cuda(0)}), w = ct::randn({k, n}, {.device = ct::cuda(0)}),
               b = ct::randn({n}, {.device = ct::cuda(0)});
  Tensor y = ct::empty({m, n}, {.device = ct::cuda(0)}), z = ct::empty({m, n}, {.device = ct::cuda(0)});
  const BiasRelu finish{b.data<float>()};
  const auto one_pass = [&] {
    ct::gpu::launch("pass", pass<BiasRelu>, static_cast<unsigned>(m * n / 256), 256, 0, y.data<float>(),
                    static_cast<int>(n), finish);
  };
  const double bytes = 8.0 * m * n;
  const double copy = book::gpu_ms([&] {
    CT_CUDA(cudaMemcpyAsync(z.data<float>(), y.data<float>(), static_cast<std::size_t>(bytes / 2),
                            cudaMemcpyDeviceToDevice, ct::gpu::native_stream()));
  });
  const double alone = book::gpu_ms([&] { launch_product<8>(x, w, y, Same{}); });
  const double apart = book::gpu_ms([&] { launch_product<8>(x, w, y, Same{}), one_pass(); });
  const double together = book::gpu_ms([&] { launch_product<8>(x, w, z, finish); });
  std::printf("f32, y [16384, 8192], k = 256\n");
  std::printf("the product alone                %6.3f ms\n", alone);
  std::printf("bias and ReLU in one more pass   %6.3f ms\n", apart);
  std::printf("bias and ReLU before it stores   %6.3f ms\n", together);
  std::printf("saved %.3f ms; a copy of y takes %.3f ms (%.0f GB/s)\n", apart - together, copy,
              bytes / copy / 1e6);
  book::claim(y.equal(z), "both have the same bits");
  const double library = book::gpu_ms([&] { ct::relu(ct::linear(x, w.t(), b)); });
  std::printf("ct::linear, then ct::relu        %6.3f ms\n", library);
  book::claim(difference(z, ct::relu(ct::linear(x, w.t(), b))) < 1e-5,
              "ct::linear gives the same but for rounding");
}

void chapter() {
  book::section("machine");
  book::machine();
  tiles();
  tensor_cores();
  fused();
}

}  // namespace

int main() { return book::run(chapter); }
