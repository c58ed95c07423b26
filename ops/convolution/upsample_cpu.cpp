#include <vector>

#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/convolution/upsample_internal.h>

// Image by image, an element of the result at a time. In the gradient too every element has one writer.

namespace ct::convolution::resizing {
namespace {

constexpr std::int64_t kElements = 1 << 12;  // for one thread

void run_cpu(bool back, const Grid& grid, const Tensor& from, const Tensor& to) {
  const int in = back ? grid.out_pixels() : grid.in_pixels(),
            out = back ? grid.in_pixels() : grid.out_pixels();
  struct Range {
    int begin, end;
  };
  std::vector<Source> columns;  // where they look, once for all rows
  std::vector<Range> windows;
  for (int q = 0; !back && q < grid.width.out; ++q) columns.push_back(grid.width.source(q));
  for (int j = 0; back && j < grid.width.in; ++j) windows.push_back({grid.width.begin(j), grid.width.end(j)});
  const int rows = back ? grid.height.in : grid.height.out, width = back ? grid.width.in : grid.width.out;
  visit_fast("upsample2d", to.dtype(), [&]<class T>(TypeTag<T>) {
    using C = compute_t<T>;
    parallel_for(to.numel() / out, 1 + kElements / out, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t n = first; n < last; ++n) {
        const T* const x = static_cast<const T*>(from.raw_data()) + n * in;
        T* y = static_cast<T*>(to.raw_data()) + n * out;
        const auto read = [x](int i) { return static_cast<C>(x[i]); };
        for (int row = 0; row < rows; ++row) {
          const Source source = grid.height.source(row);
          const int begin = back ? grid.height.begin(row) : 0, end = back ? grid.height.end(row) : 0;
          for (int column = 0; column < width; ++column) {
            const auto at = static_cast<std::size_t>(column);
            *y++ = static_cast<T>(
                back ? gathered<C>(grid, row, column, begin, end, windows[at].begin, windows[at].end, read)
                     : resized<C>(grid, source, columns[at], read));
          }
        }
      }
    });
  });
}

}  // namespace
}  // namespace ct::convolution::resizing

CT_KERNELS(cpu, upsample, CT_RESIZING_KERNELS(convolution::resizing::run_cpu))
