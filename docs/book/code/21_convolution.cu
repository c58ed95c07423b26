#include <cotangent/autograd/engine.h>
#include <cotangent/ops.h>

#include <book.h>
#include <gpu.h>

// Chapter 21 on a GPU: convolutions and their gradients beside the products of the same size, whose operand is unfolded already.

namespace {

using ct::Tensor;
const ct::Device gpu = ct::cuda(0);

struct Layer {
  const char* name;
  std::int64_t channels, filters, side, k, stride, pad;
};

void layers() {
  book::section("layers");
  const std::int64_t images = 64;
  std::printf("64 images, bf16, us           y     dx     dw   y as a product, unfolded already   GFLOP\n");
  for (const Layer& l : {Layer{"3 x 3, 64 to 64, 56 x 56", 64, 64, 56, 3, 1, 1},
                         Layer{"3 x 3, 512 to 512, 7 x 7", 512, 512, 7, 3, 1, 1},
                         Layer{"1 x 1, 256 to 64, 56 x 56", 256, 64, 56, 1, 1, 0},
                         Layer{"3 x 3, 64 to 128, stride 2", 64, 128, 56, 3, 2, 1}}) {
    const ct::TensorOptions low{.dtype = ct::bf16, .device = gpu};
    const Tensor x = ct::randn({images, l.channels, l.side, l.side}, low),
                 w = ct::randn({l.filters, l.channels, l.k, l.k}, low);
    const auto y_of = [&](const Tensor& a, const Tensor& b) {
      return ct::conv2d(a, b, {}, {.stride = l.stride, .padding = l.pad});
    };
    const double y = book::gpu_ms([&] { y_of(x, w); });
    const auto back = [&](bool of_x) {
      Tensor a = x.detach(), b = w.detach();
      (of_x ? a : b).set_requires_grad();
      const Tensor out = y_of(a, b), g = ct::ones(out.shape(), low);
      return book::gpu_ms([&] { ct::grad({out}, {of_x ? a : b}, {g}, {.retain_graph = true}); });
    };
    const double dx = back(true), dw = back(false);
    const std::int64_t pixels = images * y_of(x, w).size(2) * y_of(x, w).size(3),
                       inner = l.channels * l.k * l.k;
    const Tensor matrix = ct::randn({inner, pixels}, low), filters = w.reshape({l.filters, inner});
    const double product = book::gpu_ms([&] { ct::matmul(filters, matrix); });
    std::printf("%-26s %6.0f %6.0f %6.0f %34.0f %7.1f\n", l.name, 1e3 * y, 1e3 * dx, 1e3 * dw, 1e3 * product,
                2e-9 * static_cast<double>(pixels * inner * l.filters));
  }
}

void chapter() {
  book::section("machine");
  book::machine();
  layers();
}

}  // namespace

int main() { return book::run(chapter); }
