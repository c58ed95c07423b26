#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops.h>

#include <book.h>
#include <difference.h>
#include <gpu.h>
#include <product.cuh>

// Chapter 11c on a GPU: what comes after a product in passes of its own, and inside of the product; and the same on the way back.

namespace {

using book::AsItIs, book::Operand;
using ct::Tensor;

struct BiasRelu {
  const float* bias;
  __device__ float operator()(float sum, long, long column) const { return fmaxf(sum + bias[column], 0); }
};

/// g [y > 0], for what is stored: y's numbers lie in rows of `width`.
struct ReluBack {
  const float* y;
  long width;
  __device__ float operator()(float sum, long row, long column) const {
    return y[row * width + column] > 0 ? sum : 0;
  }
};

/// g [y > 0], for what is loaded.
template <bool kDownwards>
struct Masked {
  static constexpr bool kDown = kDownwards;
  Operand<kDownwards> g, y;
  __device__ float operator()(long i, long j) const { return y(i, j) > 0 ? g(i, j) : 0; }
};

/// A pass over y [m, n] of its own.
template <class Change>
__global__ void pass(float* y, int n, Change change) {
  const long at = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  y[at] = change(y[at], at / n, at % n);
}

constexpr std::int64_t kM = 16384, kN = 8192, kK = 256;

template <class Change>
void one_pass(Tensor& y, Change change) {
  ct::gpu::launch("pass", pass<Change>, static_cast<unsigned>(kM * kN / 256), 256, 0, y.data<float>(),
                  static_cast<int>(kN), change);
}

Tensor normal(std::int64_t rows, std::int64_t columns) {
  return ct::randn({rows, columns}, {.device = ct::cuda(0)});
}
Tensor room(std::int64_t rows, std::int64_t columns) {
  return ct::empty({rows, columns}, {.device = ct::cuda(0)});
}
/// A matrix as an operand, as it lies or transposed.
template <bool kDown = false>
Operand<kDown> of(const Tensor& m) {
  return {m.data<float>(), m.size(1)};
}

void fused() {
  book::section("fused");
  const Tensor x = normal(kM, kK), w = normal(kK, kN), b = ct::randn({kN}, {.device = ct::cuda(0)});
  Tensor y = room(kM, kN), z = room(kM, kN);
  const BiasRelu finish{b.data<float>()};
  const double bytes = 8.0 * kM * kN;
  const double copy = book::gpu_ms([&] {
    CT_CUDA(cudaMemcpyAsync(z.data<float>(), y.data<float>(), static_cast<std::size_t>(bytes / 2),
                            cudaMemcpyDeviceToDevice, ct::gpu::native_stream()));
  });
  const auto multiply = [&](Tensor& to, auto end) {
    book::launch_product<8>(of(x), of(w), to.data<float>(), kM, kN, kK, end);
  };
  const double alone = book::gpu_ms([&] { multiply(y, AsItIs{}); });
  const double apart = book::gpu_ms([&] { multiply(y, AsItIs{}), one_pass(y, finish); });
  const double together = book::gpu_ms([&] { multiply(z, finish); });
  std::printf("f32, y [16384, 8192], k = 256\n");
  std::printf("the product alone                %6.3f ms\n", alone);
  std::printf("bias and ReLU in one more pass   %6.3f ms\n", apart);
  std::printf("bias and ReLU before it stores   %6.3f ms\n", together);
  std::printf("saved %.3f ms; a copy of y takes %.3f ms (%.0f GB/s)\n", apart - together, copy,
              bytes / copy / 1e6);
  book::claim(y.equal(z), "both have the same bits");
  const double library = book::gpu_ms([&] { ct::relu(ct::linear(x, w.t(), b)); });
  std::printf("ct::linear, then ct::relu        %6.3f ms\n", library);
  book::claim(book::difference(z, ct::relu(ct::linear(x, w.t(), b))) < 1e-5,
              "ct::linear gives the same but for rounding");
}

/// The layer y = relu(x w) below another, z = y v: g = dz v^T is the cotangent of y, dx = (g [y > 0]) w^T, dw = x^T (g [y > 0]).
void backward() {
  book::section("backward");
  const Tensor x = normal(kM, kK), w = normal(kK, kN), dz = normal(kM, kK), v = normal(kN, kK);
  const Tensor y = ct::relu(ct::matmul(x, w));
  Tensor g = room(kM, kN), dx = room(kM, kK), dw = room(kK, kN);
  const ReluBack mask{y.data<float>(), kN};
  const auto cotangent = [&](auto end) {
    book::launch_product<8>(of(dz), of<true>(v), g.data<float>(), kM, kN, kK, end);
  };
  const auto gradients = [&](auto across, auto down) {
    book::launch_product<8>(across, of<true>(w), dx.data<float>(), kM, kK, kN, AsItIs{});
    book::launch_product<8>(of<true>(x), down, dw.data<float>(), kK, kN, kM, AsItIs{});
  };
  std::printf("f32, g and y [16384, 8192], x [16384, 256]: three products\n");
  Tensor wanted_dx, wanted_dw;
  double first = 0;
  const auto row = [&](const char* name, const auto& work) {
    const double ms = book::gpu_ms(work);
    if (!wanted_dx.defined()) wanted_dx = dx.clone(), wanted_dw = dw.clone(), first = ms;
    std::printf("%-36s %6.3f ms   saved %6.3f ms\n", name, ms, first - ms);
    book::claim(dx.equal(wanted_dx) && dw.equal(wanted_dw), "all have the same bits");
  };
  row("the mask in a pass of its own",
      [&] { cotangent(AsItIs{}), one_pass(g, mask), gradients(of(g), of(g)); });
  row("in the loads of both products", [&] {
    cotangent(AsItIs{});
    gradients(Masked<false>{of(g), of(y)}, Masked<false>{of(g), of(y)});
  });
  row("as g is stored", [&] { cotangent(mask), gradients(of(g), of(g)); });
  const Tensor masked = ct::matmul(dz, v.t()) * ct::gt(y, ct::zeros_like(y)).to(ct::f32);
  book::claim(book::difference(dx, ct::matmul(masked, w.t())) < 1e-4 &&
                  book::difference(dw, ct::matmul(x.t(), masked)) < 1e-4,
              "the gradients are the library's but for rounding");
}

void chapter() {
  book::section("machine");
  book::machine();
  fused();
  backward();
}

}  // namespace

int main() { return book::run(chapter); }
