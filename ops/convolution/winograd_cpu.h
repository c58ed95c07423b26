#pragma once

#include <algorithm>
#include <cstdint>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/memory/scratch_internal.h>
#include <cotangent/core/simd/shuffle.h>
#include <cotangent/ops/convolution/parts_cpu.h>
#include <cotangent/ops/engine/gemm/gemm_cpu.h>

// Convolutions of 3 x 3 with a stride of 1 by fewer multiplications (Winograd; README.md has the formulas). y is made in
// tiles of 2 x 2 pixels. A tile reads 4 x 4 pixels of x; each of 16 combinations of them is multiplied by one combination of
// the filter's taps: 16 multiplications instead of 36. Over channels and filters those are 16 products of matrices whose
// columns are tiles. dx is the convolution of g with the filters turned round.
//
// Vectors are neighbouring tiles of a row, in every transformation. Rows of tiles, all images in one list, are cut into
// blocks by the sizes alone.

namespace ct::convolution::winograd {

inline constexpr std::int64_t kBlockElements = 1 << 18;  // of both sides' matrices

/// Images of so many channels; up to `up` rows above and `left` columns before them are read as 0.
template <class T>
struct Images {
  T* data;
  std::int64_t channels, high, wide, up = 0, left = 0;
  T* row(std::int64_t n, std::int64_t channel, std::int64_t i) const {
    return data + ((n * channels + channel) * high + i) * wide;
  }
};

struct Grid {
  std::int64_t high, wide;  // of an image, in tiles
  std::int64_t rows, some;  // of tiles, in all and in a block
  Grid(std::int64_t images, std::int64_t out_high, std::int64_t out_wide, std::int64_t channels)
      : high((out_high + 1) / 2),
        wide((out_wide + 1) / 2),
        rows(images * high),
        some(std::max<std::int64_t>(
            std::clamp<std::int64_t>(kBlockElements / (16 * channels), 96, 512) / wide, 1)) {}
  std::int64_t blocks() const { return chunk_count(rows, some); }
  std::int64_t begin(std::int64_t block) const { return block * rows / blocks(); }
  /// Calls f(n, i, count, column) for rows i and so many after it of image n's tiles, of which `column` is the first.
  template <class F>
  CT_INLINE void each_image(std::int64_t block, const F& f) const {
    const std::int64_t first = begin(block), last = begin(block + 1);
    for (std::int64_t row = first; row < last;) {
      const std::int64_t i = row % high, count = std::min(last - row, high - i);
      f(row / high, i, count, (row - first) * wide);
      row += count;
    }
  }
  std::int64_t columns(std::int64_t block) const { return (begin(block + 1) - begin(block)) * wide; }
};

template <class C>
inline constexpr auto kLanes = std::make_index_sequence<simd::Vector<C>::kSize>{};

// One matrix of the 16 with so many rows, and what the last vector writes beyond it.
template <class C>
std::int64_t matrix(std::int64_t rows, std::int64_t columns) {
  return rows * columns + simd::Vector<C>::kSize;
}

// y = f x f^T, where f makes a column of a column.
template <class X, int in, int out, class F>
CT_INLINE void both_axes(const X (&x)[in][in], X (&y)[out][out], const F& f) {
  X half[out][in];
#pragma GCC unroll 4
  for (int j = 0; j < in; ++j) {
    X from[in], to[out];
#pragma GCC unroll 4
    for (int i = 0; i < in; ++i) from[i] = x[i][j];
    f(from, to);
#pragma GCC unroll 4
    for (int i = 0; i < out; ++i) half[i][j] = to[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < out; ++i) f(half[i], y[i]);
}
constexpr auto of_image = [](const auto(&x)[4], auto(&t)[4]) __attribute__((always_inline)) {
  t[0] = x[0] - x[2], t[1] = x[1] + x[2], t[2] = x[2] - x[1], t[3] = x[1] - x[3];
};
constexpr auto to_result = [](const auto(&t)[4], auto(&y)[2]) __attribute__((always_inline)) {
  y[0] = t[0] + t[1] + t[2], y[1] = t[1] - t[2] - t[3];
};
constexpr auto of_cotangent =
    [](const auto(&g)[2], auto(&t)[4]) __attribute__((always_inline)) {  // to_result, transposed
  t[0] = g[0], t[1] = g[0] + g[1], t[2] = g[0] - g[1], t[3] = -g[1];
};
constexpr auto of_filter = [](const auto(&w)[3], auto(&t)[4]) __attribute__((always_inline)) {
  const auto ends = (w[0] + w[2]) * 0.5f, middle = w[1] * 0.5f;
  t[0] = w[0], t[1] = ends + middle, t[2] = ends - middle, t[3] = w[2];
};
constexpr auto to_filter =
    [](const auto(&t)[4], auto(&w)[3]) __attribute__((always_inline)) {  // of_filter, transposed
  const auto sum = (t[1] + t[2]) * 0.5f;
  w[0] = t[0] + sum, w[1] = (t[1] - t[2]) * 0.5f, w[2] = sum + t[3];
};

// Rows [i, i + count) of a channel, as far as `wide` elements of them are looked at, in lines of zeros.
template <class T>
void read_lines(const Images<T>& from, std::int64_t n, std::int64_t channel, std::int64_t i,
                std::int64_t count, std::int64_t wide, compute_t<T>* lines, std::int64_t pitch) {
  using V = simd::Vector<compute_t<T>>;
  for (compute_t<T>* to = lines + from.left; count > 0; --count, ++i, to += pitch) {
    const bool inside = i >= 0 && i < from.high;
    const T* const row = inside ? from.row(n, channel, i) : nullptr;
    for (std::int64_t j = 0; j < wide; j += V::kSize) {
      if (!inside) {
        V(0).store(to + j);
        continue;
      }
      __builtin_prefetch(row + j + from.high * from.wide);  // the next channel's, a leap that is not foreseen
      (j + V::kSize <= wide ? V::load(row + j) : V::load(row + j, V::first(wide - j))).store(to + j);
    }
  }
}

// The 16 matrices [channels, tiles] of a block, made by f of windows of side x side pixels, 2 apart.
template <int side, class T, class F>
void spread(const Images<T>& from, std::int64_t channel, std::int64_t channels, const Grid& grid,
            std::int64_t block, compute_t<T>* out, compute_t<T>* lines, std::int64_t pitch, const F& f) {
  using C = compute_t<T>;
  using V = simd::Vector<C>;
  const std::int64_t columns = grid.columns(block), step = matrix<C>(channels, columns);
  const std::int64_t wide = std::min(from.wide, 2 * grid.wide + side - 2 - from.left);
  std::fill_n(lines, pitch * (2 * std::min(grid.some, grid.high) + 2), C(0));
  const auto image = [&](std::int64_t count, C* to) {
    const C* line = lines;
    for (; count > 0; --count, line += 2 * pitch, to += grid.wide)
      for (std::int64_t j = 0; j < grid.wide; j += V::kSize) {
        V x[side][side], t[4][4];
#pragma GCC unroll 4
        for (int r = 0; r < side; ++r)
#pragma GCC unroll 2
          for (int s = 0; s < side; s += 2) {
            const C* const at = line + r * pitch + 2 * j + s;
            const V a = V::load(at), b = V::load(at + V::kSize);
            x[r][s] = simd::every_second<false>(a, b, kLanes<C>);
            x[r][s + 1] = simd::every_second<true>(a, b, kLanes<C>);
          }
        both_axes(x, t, f);
        // Beyond the end of the row: what belongs there is written later.
#pragma GCC unroll 16
        for (int k = 0; k < 16; ++k) t[k / 4][k % 4].store(to + k * step + j);
      }
  };
  for (std::int64_t c = 0; c < channels; ++c)
    grid.each_image(block, [&](std::int64_t n, std::int64_t i, std::int64_t count, std::int64_t column) {
      read_lines(from, n, channel + c, 2 * i - from.up, 2 * count + side - 2, wide, lines, pitch);
      image(count, out + c * columns + column);
    });
}

// The images' pixels, from the 16 matrices [channels, tiles] of a block.
template <class T>
void gather(const compute_t<T>* in, const Grid& grid, std::int64_t block, const Images<T>& to,
            std::int64_t channel, std::int64_t channels, const Parts<T>& parts) {
  using C = compute_t<T>;
  using V = simd::Vector<C>;
  const std::int64_t columns = grid.columns(block), step = matrix<C>(channels, columns);
  const auto put = [](V y, T* at, std::int64_t n) {
    if (n >= V::kSize) return y.store(at);
    if (n > 0) y.store(at, V::first(n));
  };
  const auto image = [&](const C* from, V b, T* row, std::int64_t rows) {
    for (; rows > 0; rows -= 2, row += 2 * to.wide, from += grid.wide)
      for (std::int64_t j = 0; j < grid.wide; j += V::kSize) {
        V t[4][4], y[2][2];
#pragma GCC unroll 16
        for (int k = 0; k < 16; ++k) t[k / 4][k % 4] = V::load(from + k * step + j);
        both_axes(t, y, to_result);
#pragma GCC unroll 2
        for (int r = 0; r < 2; ++r) {
          if (r == rows) break;
          T* const at = row + r * to.wide + 2 * j;
          const V even = y[r][0] + b, odd = y[r][1] + b;
          put(simd::zip<false>(even, odd, kLanes<C>), at, to.wide - 2 * j);
          put(simd::zip<true>(even, odd, kLanes<C>), at + V::kSize, to.wide - 2 * j - V::kSize);
        }
      }
  };
  for (std::int64_t c = 0; c < channels; ++c)
    grid.each_image(block, [&](std::int64_t n, std::int64_t i, std::int64_t count, std::int64_t column) {
      image(in + c * columns + column, parts.bias_of(channel + c), to.row(n, channel + c, 2 * i),
            std::min(2 * count, to.high - 2 * i));
    });
}

// A filter [columns, 3, 3], number `row` of its group, as a row of the group's 16 matrices, or back. `turned`: as one of
// which the last tap comes first, along both axes.
template <bool back, class T>
void filter(T* w, compute_t<T>* m, std::int64_t rows, std::int64_t columns, std::int64_t row, bool turned) {
  using C = compute_t<T>;
  using V = simd::Vector<C>;
  for (std::int64_t c = 0; c < columns; c += V::kSize) {
    const std::int64_t n = std::min<std::int64_t>(V::kSize, columns - c);
    T* const taps = w + (row * columns + c) * 9;
    C apart[9][V::kSize] = {};
    V x[3][3], t[4][4];
    const auto place = [&](int k) {
      const auto turn = [&](int i) { return turned && i % 3 == 0 ? 3 - i : i; };
      return m + ((turn(k / 4) * 4 + turn(k % 4)) * rows + row) * columns + c;
    };
    if constexpr (back) {
      for (int k = 0; k < 16; ++k) t[k / 4][k % 4] = V::load(place(k), V::first(n));
      both_axes(t, x, to_filter);
      for (int k = 0; k < 9; ++k) x[k / 3][k % 3].store(apart[k]);
      for (std::int64_t l = 0; l < 9 * n; ++l) taps[l] = apart[l % 9][l / 9];
    } else {
      for (std::int64_t l = 0; l < 9 * n; ++l) apart[l % 9][l / 9] = static_cast<C>(taps[l]);
      for (int k = 0; k < 9; ++k) x[k / 3][k % 3] = V::load(apart[k]);
      both_axes(x, t, of_filter);
      for (int k = 0; k < 16; ++k) t[k / 4][k % 4].store(place(k), V::first(n));
    }
  }
}

// A thread's memory for a block: both sides' matrices, and lines of an image.
template <class C>
struct Space {
  std::int64_t pitch;  // of a line
  C *in, *out, *lines;
  Space(const Grid& grid, std::int64_t ins, std::int64_t outs, std::int64_t left) {
    constexpr std::int64_t w = simd::Vector<C>::kSize;
    const std::int64_t columns = grid.some * grid.wide, rows = 2 * std::min(grid.some, grid.high) + 2;
    pitch = (grid.wide / w + 1) * 2 * w + 2 + left + w;
    const std::int64_t a = 16 * matrix<C>(ins, columns), b = 16 * matrix<C>(outs, columns);
    in = detail::scratch<C>(detail::kCallersScratch, a + b + pitch * rows);
    out = in + a, lines = out + b;
  }
};

/// Whether this saves anything: not if tiles reach far beyond the image, or if there are few of them for each filter.
inline bool fits(const Job& job) {
  const Geometry& g = job.g;
  const auto plain = [](const Axis& a) {
    return a.kernel == 3 && a.stride == 1 && a.dilation == 1 && a.padding <= 2;
  };
  const bool x = job.result == Part::x;
  const std::int64_t high = x ? g.height.in : g.height.out, wide = x ? g.width.in : g.width.out;
  const Grid grid(g.batch, high, wide, 1);
  return plain(g.height) && plain(g.width) && std::min(g.group_channels(), g.group_filters()) >= 8 &&
         3 * high * wide >= 8 * grid.high * grid.wide && grid.rows * grid.wide >= 64;
}

/// y, or dx, in which the two change places.
template <class T>
void convolve(const Parts<T>& p, bool back) {
  using C = compute_t<T>;
  const Geometry& g = p.g;
  const std::int64_t rows = g.group_filters(), columns = g.group_channels(), size = rows * columns;
  const Images<T> x{p.x, g.channels, g.height.in, g.width.in, g.height.padding, g.width.padding},
      y{p.y, g.filters, g.height.out, g.width.out, 2 - g.height.padding, 2 - g.width.padding};
  const Images<T>&from = back ? y : x, &to = back ? x : y;
  const std::int64_t ins = back ? rows : columns, outs = back ? columns : rows;
  C* const u = detail::scratch<C>(detail::kSharedScratch, g.groups * 16 * size);
  parallel_for(
      g.filters, grain(static_cast<double>(64 * columns)), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t o = begin; o < end; ++o)
          filter<false>(p.w + o / rows * 9 * size, u + o / rows * 16 * size, rows, columns, o % rows, back);
      });
  const Grid grid(g.batch, to.high, to.wide, ins + outs);
  parallel_for(g.groups * grid.blocks(), 1, [&](std::int64_t begin, std::int64_t end) {
    const Space<C> space(grid, ins, outs, from.left);
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t group = t % g.groups, block = t / g.groups, n = grid.columns(block);
      spread<4>(from, group * ins, ins, grid, block, space.in, space.lines, space.pitch, of_image);
      gemm_batched_cpu<C>({outs, n, ins, back ? 1 : ins, back ? outs : 1, n, 1, n}, 16, size,
                          matrix<C>(ins, n), matrix<C>(outs, n), 1, u + group * 16 * size, space.in, 0,
                          space.out);
      gather(space.out, grid, block, to, group * outs, outs, p);
    }
  });
}

/// dw, in as many parts as there are chunks of all blocks.
template <class T>
void weight_gradient(const Parts<T>& p, compute_t<T>* partial, std::int64_t chunks, const Grid& grid) {
  using C = compute_t<T>;
  const Geometry& g = p.g;
  const std::int64_t rows = g.group_filters(), columns = g.group_channels(), size = rows * columns;
  const Images<T> x{p.x, g.channels, g.height.in, g.width.in, g.height.padding, g.width.padding},
      y{p.y, g.filters, g.height.out, g.width.out};
  C* const u = detail::scratch<C>(detail::kSharedScratch + 1, chunks * g.groups * 16 * size);
  parallel_for(chunks * g.groups, 1, [&](std::int64_t begin, std::int64_t end) {
    const Space<C> space(grid, columns, rows, x.left);
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t chunk = t / g.groups, group = t % g.groups;
      const std::int64_t first = chunk * grid.blocks() / chunks, last = (chunk + 1) * grid.blocks() / chunks;
      C* const sums = u + t * 16 * size;
      for (std::int64_t block = first; block < last; ++block) {
        const std::int64_t n = grid.columns(block);
        spread<4>(x, group * columns, columns, grid, block, space.in, space.lines, space.pitch, of_image);
        spread<2>(y, group * rows, rows, grid, block, space.out, space.lines, space.pitch, of_cotangent);
        gemm_batched_cpu<C>({rows, columns, n, n, 1, 1, n, columns}, 16, matrix<C>(rows, n),
                            matrix<C>(columns, n), size, 1, space.out, space.in, block == first ? 0 : 1,
                            sums);
      }
      for (std::int64_t o = 0; o < rows; ++o)
        filter<true>(partial + t * 9 * size, sums, rows, columns, o, false);
    }
  });
}

}  // namespace ct::convolution::winograd
