#pragma once

#include <algorithm>
#include <cstdint>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/cuda/divider.h>
#include <cotangent/ops/convolution/convolution_internal.h>

// A part of a convolution as a product of matrices for each group, C[m, n] = sum_k A[m, k] B[k, n]: where the kernels of a
// GPU find the elements of each. Compiled for the host too, where tests go through all of them.
//
//   part     m        n                       k                       A        B
//   y        filter   pixel of y              channel, tap            w        x where the pixel sees it under the tap
//   x        channel  pixel of x              filter, tap             w        y that sees the pixel under the tap
//   weight   filter   channel, tap            pixel of y              y        as for y
//
// Pixels are counted through all images. B is always an image seen from a pixel under a tap.

namespace ct::convolution {

/// A pixel or a tap: its share of an element's place, and of its row and column.
struct Place {
  long long offset;
  int row, column;
};
/// Place of a pixel or tap that does not exist: every element it sees lies outside.
inline constexpr Place kNowhere{0, -(1 << 30), 0};

struct Patches {
  gpu::Divider plane, width;            // pixels of an image, and of a row
  gpu::Divider taps, kernel_width;      // of the kernel
  gpu::Divider down, across;            // for x: rows and columns of y lie so far apart
  bool strided = false;                 // whether either is more than 1
  int seen_height = 0, seen_width = 0;  // of the image that is read
  long long image = 0, channel = 0;     // from one to the next
  int scale_row = 1, scale_column = 1, shift_row = 0, shift_column = 0;  // of a pixel
  int step_row = 1, step_column = 1;                                     // from tap to tap

  CT_HD Place pixel(std::uint32_t i) const {
    const std::uint32_t n = plane.divide(i), rest = i - n * plane.divisor, p = width.divide(rest);
    return place(static_cast<long long>(n) * image, static_cast<int>(p) * scale_row + shift_row,
                 static_cast<int>(rest - p * width.divisor) * scale_column + shift_column);
  }
  CT_HD Place tap(std::uint32_t k) const {
    const std::uint32_t c = taps.divide(k), rest = k - c * taps.divisor, i = kernel_width.divide(rest);
    return place(static_cast<long long>(c) * channel, static_cast<int>(i) * step_row,
                 static_cast<int>(rest - i * kernel_width.divisor) * step_column);
  }
  /// The element that is seen, or -1 outside of the image.
  CT_HD long long at(const Place& pixel, const Place& tap) const {
    const int row = pixel.row + tap.row, column = pixel.column + tap.column;
    const long long offset = pixel.offset + tap.offset;
    if (!strided) return row_is_inside(row) && column_is_inside(column) ? offset : -1;
    if (row < 0 || column < 0) return -1;
    const int p = static_cast<int>(down.divide(static_cast<std::uint32_t>(row)));
    const int q = static_cast<int>(across.divide(static_cast<std::uint32_t>(column)));
    const bool hit =
        p * static_cast<int>(down.divisor) == row && q * static_cast<int>(across.divisor) == column;
    return hit && row_is_inside(p) && column_is_inside(q)
               ? offset + static_cast<long long>(p) * seen_width + q
               : -1;
  }
  CT_HD bool row_is_inside(int row) const {
    return static_cast<unsigned>(row) < static_cast<unsigned>(seen_height);
  }
  CT_HD bool column_is_inside(int column) const {
    return static_cast<unsigned>(column) < static_cast<unsigned>(seen_width);
  }

 private:
  // Unless the stride has to divide their sum first, row and column are in the offset already.
  CT_HD Place place(long long offset, int row, int column) const {
    if (!strided) offset += static_cast<long long>(row) * seen_width + column;
    return {offset, row, column};
  }
};

struct Product {
  Patches patches;
  const void *a = nullptr, *b = nullptr, *bias = nullptr;  // bias: one for each m, of T
  void* c = nullptr;
  long long a_group = 0, b_group = 0, c_group = 0, c_split = 0;  // from one to the next
  long long a_row = 0, a_outer = 0, c_row = 0, c_outer = 0;
  gpu::Divider a_inner, c_inner;
  std::uint32_t m = 0, n = 0, k = 0, groups = 1;
  std::uint32_t splits = 1, k_split = 0;  // of k, each with a C of its own

  /// A block's tile of C, from row m0 and column n0 on, and its part of k.
  struct Block {
    std::uint32_t m0, n0, group, split, k_first, k_end;
  };
  CT_HD Block block(std::uint32_t index, std::uint32_t rows, std::uint32_t columns) const {
    const std::uint32_t tiles_n = (n + columns - 1) / columns, tiles_m = (m + rows - 1) / rows;
    const std::uint32_t tile = index / tiles_n, part = tile / tiles_m, split = part % splits,
                        first = split * k_split;
    return {tile % tiles_m * rows,
            index % tiles_n * columns,
            part / splits,
            split,
            first,
            k - first < k_split ? k : first + k_split};
  }
  CT_HD long long a_at(std::uint32_t k_index) const {  // of row 0
    const std::uint32_t q = a_inner.divide(k_index);
    return q * a_outer + (k_index - q * a_inner.divisor);
  }
  CT_HD long long c_at(std::uint32_t n_index) const {
    const std::uint32_t q = c_inner.divide(n_index);
    return q * c_outer + (n_index - q * c_inner.divisor);
  }
  /// Cuts k into at most `count` parts of a multiple of `step`.
  void split(std::int64_t count, std::int64_t step) {
    const std::int64_t each = (k + count * step - 1) / (count * step) * step;
    k_split = static_cast<std::uint32_t>(std::max(each, step));
    splits = static_cast<std::uint32_t>(std::max<std::int64_t>(1, (k + std::int64_t{k_split} - 1) / k_split));
  }
};

/// The product of `job`, of one part. C of a weight's gradient is not set: it is where partial sums go.
inline Product product_of(const Job& job) {
  const Geometry& g = job.g;
  const std::int64_t channels = g.group_channels(), filters = g.group_filters();
  const std::int64_t in = g.in_pixels(), out = g.out_pixels();
  const std::int64_t largest =
      std::max({g.batch * in, g.batch * out, g.depth(), filters * g.taps(), channels, filters});
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1, kMostLong = std::int64_t{1} << 29;
  CT_CHECK(largest <= kMost && std::max({g.height.in, g.width.in, g.height.out, g.width.out}) < kMostLong &&
               (g.height.out - 1) * g.height.stride + (g.height.kernel - 1) * g.height.dilation < kMostLong &&
               (g.width.out - 1) * g.width.stride + (g.width.kernel - 1) * g.width.dilation < kMostLong &&
               std::max(g.height.padding, g.width.padding) < kMostLong,
           ShapeError, job.op, "the convolution has ", largest,
           " pixels, or elements of a filter, and windows on ", g.height.in, " by ", g.width.in,
           "; on a GPU at most ", kMost, " and ", kMostLong, " are supported: cut the batch");
  const auto divider = [](std::int64_t d) {
    return gpu::Divider(static_cast<std::uint32_t>(std::max<std::int64_t>(d, 1)));
  };
  const auto count = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  const auto narrow = [](std::int64_t n) { return static_cast<int>(n); };
  const auto part = [&](Part p) { return job.parts[static_cast<std::size_t>(p)]->raw_data(); };
  const bool back = job.result == Part::x;
  Product p;
  Patches& b = p.patches;
  b.taps = divider(g.taps());
  b.kernel_width = divider(g.width.kernel);
  b.plane = divider(back ? in : out);
  b.width = divider(back ? g.width.in : g.width.out);
  const int direction = back ? -1 : 1;  // from taps to y it goes the other way
  b.step_row = direction * narrow(g.height.dilation), b.step_column = direction * narrow(g.width.dilation);
  b.shift_row = -direction * narrow(g.height.padding), b.shift_column = -direction * narrow(g.width.padding);
  if (back) {
    b.down = divider(g.height.stride), b.across = divider(g.width.stride);
    b.strided = g.height.stride > 1 || g.width.stride > 1;
    b.seen_height = narrow(g.height.out), b.seen_width = narrow(g.width.out);
    b.channel = out, b.image = g.filters * out;
  } else {
    b.scale_row = narrow(g.height.stride), b.scale_column = narrow(g.width.stride);
    b.seen_height = narrow(g.height.in), b.seen_width = narrow(g.width.in);
    b.channel = in, b.image = g.channels * in;
  }
  p.groups = count(g.groups);
  p.b = part(back ? Part::y : Part::x);
  p.b_group = back ? filters * out : channels * in;
  p.bias = job.bias ? job.bias->raw_data() : nullptr;
  p.c = job.result == Part::weight ? nullptr : part(job.result);
  const std::int64_t filter = g.depth();
  if (job.result == Part::weight) {
    p.m = count(filters), p.n = count(filter), p.k = count(g.batch * out);
    p.a = part(Part::y), p.a_group = filters * out;
    p.a_row = out, p.a_inner = divider(out), p.a_outer = g.filters * out;
    p.c_group = filters * filter, p.c_split = g.filters * filter;
    p.c_row = filter, p.c_inner = divider(filter), p.c_outer = 0;
  } else {
    p.a = part(Part::weight), p.a_group = filters * filter;
    p.m = count(back ? channels : filters), p.n = count(g.batch * (back ? in : out));
    p.k = count(back ? filters * g.taps() : filter);
    p.a_row = back ? g.taps() : filter;
    p.a_inner = divider(back ? g.taps() : filter), p.a_outer = filter;
    const std::int64_t pixels = back ? in : out;
    p.c_group = p.m * pixels, p.c_row = pixels;
    p.c_inner = divider(pixels), p.c_outer = p.groups * p.c_group;
  }
  p.k_split = std::max<std::uint32_t>(p.k, 1);
  return p;
}

}  // namespace ct::convolution
