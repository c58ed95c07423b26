#include <cotangent/core/parallel.h>
#include <cotangent/ops/convolution/pooling_internal.h>

// Image by image, an element of the result at a time. In the gradient too every element has one writer.

namespace ct::pooling {
namespace {

constexpr std::int64_t kElements = 1 << 12;  // for one thread

void run_cpu(Work work, const Windows& w, const Tensor& from, const Tensor& indices, const Tensor& to) {
  const bool back = work == Work::gathered;
  const int in = back ? w.out_pixels() : w.in_pixels(), out = back ? w.in_pixels() : w.out_pixels();
  const int width = back ? w.width.in : w.width.out;
  visit_fast("pool2d", to.dtype(), [&]<class T>(TypeTag<T>) {
    using C = compute_t<T>;
    parallel_for(to.numel() / out, 1 + kElements / out, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const T* const x = static_cast<const T*>(from.raw_data()) + n * in;
        T* const y = static_cast<T*>(to.raw_data()) + n * out;
        std::int64_t* const index =
            indices.defined() ? indices.data<std::int64_t>() + n * w.out_pixels() : nullptr;
        const auto read = [x](int i) { return static_cast<C>(x[i]); };
        for (int row = 0, i = 0; i < out; ++row)
          for (int column = 0; column < width; ++column, ++i)
            y[i] = static_cast<T>(work == Work::largest  ? largest<C>(w, row, column, read, index[i])
                                  : work == Work::pooled ? pooled<C>(w, row, column, read, index)
                                                         : gathered<C>(w, row, column, read, index));
      }
    });
  });
}

}  // namespace
}  // namespace ct::pooling

CT_KERNELS(cpu, pooling, CT_POOLING_KERNELS(pooling::run_cpu))
