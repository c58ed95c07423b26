#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops.h>

#include <book.h>
#include <difference.h>
#include <gpu.h>
#include <product.cuh>

// Chapter 11 on a GPU: a product in tiles of several sizes.

namespace {

using ct::Tensor;

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
    const book::Operand<false> left{a.data<float>(), n}, right{b.data<float>(), n};
    const double ms =
        book::gpu_ms([&] { book::launch_product<R>(left, right, c.data<float>(), n, n, n, book::AsItIs{}); });
    row(name, ms, book::difference(c, library));
  };
  of("r = 1", std::integral_constant<int, 1>());
  of("r = 2", std::integral_constant<int, 2>());
  of("r = 4", std::integral_constant<int, 4>());
  of("r = 8", std::integral_constant<int, 8>());
  row("cuBLASLt", book::gpu_ms([&] { ct::matmul(a, b); }), 0);
}

void chapter() {
  book::section("machine");
  book::machine();
  tiles();
}

}  // namespace

int main() { return book::run(chapter); }
