#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/convolution/pooling_plain.h>

// The plain kernels: image by image by pooling_plain.h.

namespace ct::convolution::pooling {
namespace {

using namespace plain;

void run_plain(Work work, const Windows& w, const Tensor& from, const Tensor& indices, const Tensor& to) {
  const bool back = work == Work::gathered;
  const std::int64_t in = back ? w.out_pixels() : w.in_pixels(), out = back ? w.in_pixels() : w.out_pixels();
  parallel_for(to.numel() / out, 1 + 4096 / out, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const double* x = from.data<double>() + n * in;
      double* y = to.data<double>() + n * out;
      std::int64_t* index = indices.defined() ? indices.data<std::int64_t>() + n * w.out_pixels() : nullptr;
      if (work == Work::largest) max_pool(w, x, y, index);
      if (work == Work::pooled) pool(w, x, index, y);
      if (work == Work::gathered) pool_gradient(w, x, index, y);
    }
  });
}

}  // namespace
}  // namespace ct::convolution::pooling

CT_KERNELS(plain, pooling, CT_POOLING_KERNELS(convolution::pooling::run_plain))
