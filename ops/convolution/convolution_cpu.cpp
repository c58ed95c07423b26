#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/memory/scratch_internal.h>
#include <cotangent/core/simd/copy.h>
#include <cotangent/core/simd/vector.h>
#include <cotangent/ops/convolution/convolution_internal.h>
#include <cotangent/ops/convolution/parts_cpu.h>
#include <cotangent/ops/convolution/winograd_cpu.h>
#include <cotangent/ops/engine/fold/sum.h>
#include <cotangent/ops/engine/gemm/gemm_cpu.h>

// Each part as products of matrices on tiles of pixels of y: what the filters see there is unfolded into a small matrix
// [elements of a filter, pixels], which the engine for products reads or writes. With one channel to a group (depthwise)
// there is no matrix to speak of, and the rows of the image are summed directly.
//
// Work is cut by the sizes of the problem alone, and everything that is summed has one writer and a fixed order.

namespace ct::convolution {
namespace {

using std::int64_t;

constexpr int64_t kTileElements = 1 << 16;  // of the unfolded matrix: it stays in the second-level cache
constexpr int64_t kMostPartials = 16;       // of the weight's gradient, and at most so many elements of them:
constexpr int64_t kPartialElements = 1 << 22;

template <class T>
using Buffer = std::unique_ptr<T[]>;
template <class T>
Buffer<T> buffer(int64_t n) {
  return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(n));
}

/// The pixels of y, image by image, in tiles.
struct Tiles {
  int64_t pixels, size, count;
  explicit Tiles(const Geometry& g)
      : pixels(g.out_pixels()),
        size(std::clamp<int64_t>(kTileElements / std::max<int64_t>(g.depth(), 1) / 32 * 32, 64, 1024)),
        count(chunk_count(pixels, size)) {}
  int64_t first(int64_t t) const { return t * size; }
  int64_t length(int64_t t) const { return std::min(size, pixels - first(t)); }
};

// Calls f(row, column, at, count) for all elements of one image that the pixels [first, last) of y read: under tap `row`
// of so many channels the pixels first + column + l, l < count, read element at + l * stride.
template <class F>
void each_run(const Geometry& g, int64_t channels, int64_t first, int64_t last, const F& f) {
  const Axis &h = g.height, &w = g.width;
  for (int64_t c = 0, row = 0; c < channels; ++c)
    for (int64_t i = 0; i < h.kernel; ++i) {
      const Axis::Range down = h.inside(i);
      const int64_t from = std::max(down.first, first / w.out),
                    to = std::min(down.last, (last - 1) / w.out + 1);
      for (int64_t j = 0; j < w.kernel; ++j, ++row) {
        const Axis::Range across = w.inside(j);
        for (int64_t p = from; p < to; ++p) {
          const int64_t q0 = std::max(across.first, first - p * w.out),
                        q1 = std::min(across.last, last - p * w.out);
          if (q0 < q1)
            f(row, p * w.out + q0 - first, (c * h.in + h.seen(p, i)) * w.in + w.seen(q0, j), q1 - q0);
        }
      }
    }
}

// A matrix whose rows are the elements of a filter, and whose columns are the pixels of a tile.
template <class T>
struct Unfolded {
  const T* data;
  int64_t row;
};
template <class T>
Unfolded<T> unfold(const Geometry& g, const T* image, int64_t first, int64_t count, T* out) {
  const bool same = g.taps() == 1 && g.height.stride * g.width.stride == 1 &&
                    g.height.padding + g.width.padding == 0 && g.height.in == g.height.out &&
                    g.width.in == g.width.out;
  if (same) return {image + first, g.in_pixels()};  // 1 x 1: the image is the matrix
  std::memset(static_cast<void*>(out), 0, static_cast<std::size_t>(g.depth() * count) * sizeof(T));
  each_run(g, g.group_channels(), first, first + count,
           [&, stride = g.width.stride](int64_t row, int64_t column, int64_t at, int64_t n) {
             T* const to = out + row * count + column;
             const T* const from = image + at;
             if (stride == 1) return void(std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T)));
             for (int64_t l = 0; l < n; ++l) to[l] = from[l * stride];
           });
  return {out, count};
}

// n elements as numbers that are summed: where they lie, or converted.
template <class T>
const compute_t<T>* wide(const T* from, int64_t n, Buffer<compute_t<T>>& holder) {
  if constexpr (std::is_same_v<T, compute_t<T>>) {
    return from;
  } else {
    if (!holder) holder = buffer<float>(n);
    simd::convert_run(from, n, holder.get());
    return holder.get();
  }
}
// Calls f(sums) with n sums, which begin as `start`, and rounds them to `to`.
template <class T, class F>
void summed(T* to, int64_t n, compute_t<T> start, const F& f) {
  if constexpr (std::is_same_v<T, compute_t<T>>) {
    std::fill_n(to, n, start);
    f(to);
  } else {
    const Buffer<float> sums = buffer<float>(n);
    std::fill_n(sums.get(), n, start);
    f(sums.get());
    simd::convert_run(sums.get(), n, to);
  }
}

// ---- by products ----------------------------------------------------------------------------------------

// y = w unfold(x) + b, for each image, group and tile.
template <class T>
void forward(const Parts<T>& p) {
  const Geometry& g = p.g;
  const Tiles tiles(g);
  const int64_t depth = g.depth(), filters = g.group_filters();
  const double products = static_cast<double>(filters * depth) * static_cast<double>(tiles.size);
  parallel_for(g.batch * g.groups * tiles.count, grain(products), [&](int64_t begin, int64_t end) {
    const Buffer<T> seen = buffer<T>(depth * tiles.size);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t tile = t % tiles.count, group = t / tiles.count % g.groups,
                    n = t / tiles.count / g.groups;
      const int64_t first = tiles.first(tile), count = tiles.length(tile);
      const Unfolded<T> x = unfold<T>(g, p.image(n, group * g.group_channels()), first, count, seen.get());
      T* const y = p.filtered(n, group * filters) + first;
      if (p.bias)
        for (int64_t o = 0; o < filters; ++o)
          std::fill_n(y + o * tiles.pixels, count, p.bias[group * filters + o]);
      gemm_cpu<T>({filters, count, depth, depth, 1, x.row, 1, tiles.pixels}, 1, p.filter(group * filters),
                  x.data, p.bias ? 1 : 0, y);
    }
  });
}

// x = fold(w^T y) + b, for each image and as many channels of a group at a time as make a small matrix.
template <class T>
void input_gradient(const Parts<T>& p) {
  using C = compute_t<T>;
  const Geometry& g = p.g;
  const Tiles tiles(g);
  const int64_t depth = g.depth(), filters = g.group_filters(), taps = g.taps(),
                channels = g.group_channels();
  const int64_t some =
      std::clamp<int64_t>(kTileElements / (taps * std::min(tiles.size, tiles.pixels)), 1, channels);
  const int64_t blocks = chunk_count(channels, some);
  const double products = static_cast<double>(filters * some * taps) * static_cast<double>(tiles.pixels);
  parallel_for(g.batch * g.groups * blocks, grain(products), [&](int64_t begin, int64_t end) {
    const Buffer<C> seen = buffer<C>(some * taps * tiles.size);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t c0 = t % blocks * some, group = t / blocks % g.groups, n = t / blocks / g.groups;
      const int64_t count = std::min(some, channels - c0), channel = group * channels + c0;
      summed<T>(p.image(n, channel), count * g.in_pixels(), 0, [&](C* x) {
        if (p.bias)
          for (int64_t c = 0; c < count; ++c)
            std::fill_n(x + c * g.in_pixels(), g.in_pixels(), p.bias_of(channel + c));
        for (int64_t tile = 0; tile < tiles.count; ++tile) {
          const int64_t first = tiles.first(tile), length = tiles.length(tile);
          gemm_cpu<T, C>({count * taps, length, filters, 1, depth, tiles.pixels, 1, length}, 1,
                         p.filter(group * filters) + c0 * taps, p.filtered(n, group * filters) + first, 0,
                         seen.get());
          each_run(g, count, first, first + length,
                   [&, stride = g.width.stride](int64_t row, int64_t column, int64_t at, int64_t run) {
                     const C* const from = seen.get() + row * length + column;
                     for (int64_t l = 0; l < run; ++l) x[at + l * stride] += from[l];
                   });
        }
      });
    }
  });
}

// ---- depthwise -----------------------------------------------------------------------------------------------

template <class T>
void forward_direct(const Parts<T>& p) {
  using C = compute_t<T>;
  const Geometry& g = p.g;
  const int64_t pixels = g.out_pixels(), taps = g.taps();
  parallel_for(
      g.batch * g.filters, grain(static_cast<double>(pixels * taps)), [&](int64_t begin, int64_t end) {
        Buffer<C> holder;
        for (int64_t t = begin; t < end; ++t) {
          const int64_t n = t / g.filters, o = t % g.filters;
          const C* const x = wide<T>(p.image(n, o / g.group_filters()), g.in_pixels(), holder);
          summed<T>(p.filtered(n, o), pixels, p.bias_of(o), [&](C* y) {
            each_run(g, 1, 0, pixels,
                     [&, stride = g.width.stride](int64_t tap, int64_t column, int64_t at, int64_t run) {
                       const C w = static_cast<C>(p.w[o * taps + tap]);
                       if (stride == 1) {
                         for (int64_t l = 0; l < run; ++l) y[column + l] += w * x[at + l];
                       } else {
                         for (int64_t l = 0; l < run; ++l) y[column + l] += w * x[at + l * stride];
                       }
                     });
          });
        }
      });
}

template <class T>
void input_gradient_direct(const Parts<T>& p) {
  using C = compute_t<T>;
  const Geometry& g = p.g;
  const int64_t pixels = g.out_pixels(), taps = g.taps(), filters = g.group_filters();
  const double products = static_cast<double>(pixels * taps * filters);
  parallel_for(g.batch * g.channels, grain(products), [&](int64_t begin, int64_t end) {
    Buffer<C> holder;
    for (int64_t t = begin; t < end; ++t) {
      const int64_t n = t / g.channels, c = t % g.channels;
      summed<T>(p.image(n, c), g.in_pixels(), p.bias_of(c), [&](C* x) {
        for (int64_t o = c * filters; o < (c + 1) * filters; ++o) {
          const C* const y = wide<T>(p.filtered(n, o), pixels, holder);
          each_run(g, 1, 0, pixels,
                   [&, stride = g.width.stride](int64_t tap, int64_t column, int64_t at, int64_t run) {
                     const C w = static_cast<C>(p.w[o * taps + tap]);
                     if (stride == 1) {
                       for (int64_t l = 0; l < run; ++l) x[at + l] += w * y[column + l];
                     } else {
                       for (int64_t l = 0; l < run; ++l) x[at + l * stride] += w * y[column + l];
                     }
                   });
        }
      });
    }
  });
}

// sum of a[l] b[l stride], in lanes of their own so that they can be vectors.
template <class C>
C dot(const C* a, const C* b, int64_t stride, int64_t n) {
  constexpr int64_t kLanes = 16;
  C sums[kLanes] = {};
  int64_t l = 0;
  if (stride == 1)
    for (; l + kLanes <= n; l += kLanes)
      for (int64_t k = 0; k < kLanes; ++k) sums[k] += a[l + k] * b[l + k];
  for (; l < n; ++l) sums[l % kLanes] += a[l] * b[l * stride];
  C sum = 0;
  for (const C s : sums) sum += s;
  return sum;
}

// ---- the weight's gradient --------------------------------------------------------------------------------

// dw = y unfold(x)^T, for each group and chunk of all tiles; `partial` has a weight for each chunk.
template <class T>
void weight_gradient(const Parts<T>& p, compute_t<T>* partial, int64_t chunks) {
  using C = compute_t<T>;
  const Geometry& g = p.g;
  const Tiles tiles(g);
  const int64_t depth = g.depth(), filters = g.group_filters(), units = g.batch * tiles.count;
  parallel_for(chunks * g.groups, 1, [&](int64_t begin, int64_t end) {
    const Buffer<T> seen = buffer<T>(depth * tiles.size);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t chunk = t / g.groups, group = t % g.groups;
      C* const dw = partial + (chunk * g.filters + group * filters) * depth;
      if (units == 0) std::fill_n(dw, filters * depth, C(0));
      const int64_t start = chunk * units / chunks;
      for (int64_t u = start; u < (chunk + 1) * units / chunks; ++u) {
        const int64_t first = tiles.first(u % tiles.count), count = tiles.length(u % tiles.count);
        const int64_t n = u / tiles.count;
        const Unfolded<T> x = unfold<T>(g, p.image(n, group * g.group_channels()), first, count, seen.get());
        gemm_cpu<T, C>({filters, depth, count, tiles.pixels, 1, 1, x.row, depth}, 1,
                       p.filtered(n, group * filters) + first, x.data, u == start ? 0 : 1, dw);
      }
    }
  });
}

template <class T>
void weight_gradient_direct(const Parts<T>& p, compute_t<T>* dw) {
  using C = compute_t<T>;
  const Geometry& g = p.g;
  const int64_t taps = g.taps(), pixels = g.out_pixels();
  std::fill_n(dw, g.filters * taps, C(0));
  const double products = static_cast<double>(pixels * taps) * static_cast<double>(g.batch);
  parallel_for(g.filters, grain(products), [&](int64_t begin, int64_t end) {
    Buffer<C> x_holder, y_holder;
    for (int64_t o = begin; o < end; ++o)
      for (int64_t n = 0; n < g.batch; ++n) {
        const C* const x = wide<T>(p.image(n, o / g.group_filters()), g.in_pixels(), x_holder);
        const C* const y = wide<T>(p.filtered(n, o), pixels, y_holder);
        each_run(g, 1, 0, pixels,
                 [&, stride = g.width.stride](int64_t tap, int64_t column, int64_t at, int64_t run) {
                   dw[o * taps + tap] += dot(y + column, x + at, stride, run);
                 });
      }
  });
}

template <class T>
void run_typed(const Job& job) {
  const Parts<T> p(job);
  const Geometry& g = job.g;
  const bool direct = g.thin(), fewer = winograd::fits(job);
  if (job.result == Part::y)
    return direct ? forward_direct(p) : fewer ? winograd::convolve(p, false) : forward(p);
  if (job.result == Part::x)
    return direct ? input_gradient_direct(p) : fewer ? winograd::convolve(p, true) : input_gradient(p);
  const winograd::Grid grid(g.batch, g.height.out, g.width.out, g.group_channels() + g.group_filters());
  const int64_t size = job.out().numel(), units = fewer ? grid.blocks() : g.batch * Tiles(g).count;
  const int64_t chunks =
      direct ? 1 : std::max<int64_t>(1, std::min({units, kMostPartials, kPartialElements / size}));
  using C = compute_t<T>;
  const Shape shape{chunks, size};
  C* const sums = detail::scratch<C>(detail::kSharedScratch, numel(shape));
  if (direct) {
    weight_gradient_direct(p, sums);
  } else if (fewer) {
    winograd::weight_gradient(p, sums, chunks, grid);
  } else {
    weight_gradient(p, sums, chunks);
  }
  const auto memory = Storage::wrap(sums, static_cast<std::size_t>(numel(shape)) * sizeof(C), cpu, {});
  const Tensor partial = Tensor::from_storage(memory, shape, contiguous_strides(shape), 0, dtype_of<C>);
  fold::sum_cpu(partial, 1, job.out().view({size}), 1, job.accumulate);
}

void run_cpu(const Job& job) {
  visit_floating(job.op, job.parts[0]->dtype(), [&]<class T>(TypeTag<T>) { run_typed<T>(job); });
}

}  // namespace
}  // namespace ct::convolution

CT_KERNELS(cpu, convolution, CT_CONVOLUTION_KERNELS(convolution::run_cpu))
