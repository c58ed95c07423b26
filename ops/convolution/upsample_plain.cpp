#include <cotangent/ops/convolution/upsample_plain.h>

#include <cotangent/core/device/parallel.h>

// The plain kernels: image by image by upsample_plain.h.

namespace ct::convolution::resizing {
namespace {

using namespace plain;

void run_plain(bool back, const Grid& grid, const Tensor& from, const Tensor& to) {
  const std::int64_t in = grid.in_pixels(), out = grid.out_pixels();
  parallel_for(to.numel() / (back ? in : out), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const double* const x = from.data<double>() + n * (back ? out : in);
      double* const y = to.data<double>() + n * (back ? in : out);
      back ? resize_gradient(grid, x, y) : resize(grid, x, y);
    }
  });
}

}  // namespace
}  // namespace ct::convolution::resizing

CT_KERNELS(plain, upsample, CT_RESIZING_KERNELS(convolution::resizing::run_plain))
