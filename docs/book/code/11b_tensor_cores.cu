#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops.h>
#include <cotangent/core/cuda/mma/ptx.cuh>

#include <book.h>
#include <difference.h>
#include <gpu.h>

// Chapter 11b on a GPU: a product by tensor cores.

namespace {

using ct::Tensor;

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
  const double operations = 2.0 * n * n * n, error = book::difference(y, library);
  std::printf("bf16, 4096 x 4096 x 4096\n");
  std::printf("mma, operands from memory %8.3f ms %6.1f TFLOP/s   off from cuBLASLt by %.0e\n", ms,
              operations / ms / 1e9, error);
  std::printf("cuBLASLt                  %8.3f ms %6.1f TFLOP/s\n", library_ms,
              operations / library_ms / 1e9);
  book::claim(error < 1e-2,
              "tensor cores by hand give cuBLASLt's product, but for the rounding of the result");
}

void chapter() {
  book::section("machine");
  book::machine();
  tensor_cores();
}

}  // namespace

int main() { return book::run(chapter); }
