#include <algorithm>

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/divider.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/normalization/batch_norm_internal.h>

// Statistics and sums: a block for each channel and part of its elements, then a thread for each channel that combines the
// parts in their order. The mean and variance of a vector's elements are joined to those of a thread, so that nothing
// large is subtracted from something large. What is written, y or dx, is a map of vectors.

namespace ct::normalization::batch {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kWantedBlocks = 2048;  // that keep a GPU busy
constexpr int kUnroll = 4;                    // vectors of a thread that are on their way together

/// Elements that have been seen, their mean, and the sum of squared distances to it.
template <class C>
struct Moments {
  C count = 0, mean = 0, squares = 0;

  __device__ __forceinline__ Moments joined(const Moments& b) const {
    const C total = count + b.count, share = total > 0 ? b.count / total : 0, d = b.mean - mean;
    return {total, mean + d * share, squares + b.squares + d * d * count * share};
  }
  friend __device__ __forceinline__ Moments shuffle_xor(const Moments& m, int offset, int width) {
    return {gpu::shuffle_xor(m.count, offset, width), gpu::shuffle_xor(m.mean, offset, width),
            gpu::shuffle_xor(m.squares, offset, width)};
  }
};
struct Join {
  template <class C>
  __device__ __forceinline__ Moments<C> operator()(const Moments<C>& a, const Moments<C>& b) const {
    return a.joined(b);
  }
};

struct Layout {
  long long images, channels, pixels, vectors;  // vectors: of all of x
  gpu::Divider run, channel;  // vectors of a run of pixels, channels; where numbers have 32 bits
  bool small, f16;
  int width;  // elements of a vector

  /// The channel of vector v.
  __device__ __forceinline__ int channel_of(long long v) const {
    if (small) {
      const std::uint32_t r = run.divide(static_cast<std::uint32_t>(v));
      return static_cast<int>(r - channel.divide(r) * channel.divisor);
    }
    return static_cast<int>(v / (pixels / width) % channels);
  }
};

// Calls f(place of a vector) for this thread's share of a channel's part.
template <int N, class F>
__device__ __forceinline__ void each_vector(const Layout& l, int channel, int part, int parts, const F& f) {
  const long long run = l.pixels / N, all = l.images * run;
  const long long end = all * (part + 1) / parts;
  for (long long v = all * part / parts + threadIdx.x; v < end; v += kThreads) {
    const long long n = l.small ? l.run.divide(static_cast<std::uint32_t>(v)) : v / run;
    f((n * l.channels + channel) * l.pixels + (v - n * run) * N);
  }
}

template <class T, int N>
__device__ __forceinline__ void read(const T* from, bool f16, compute_t<T> (&out)[N]) {
  gpu::unpack(gpu::Vector<T, N>::load_readonly(from), f16, out);
}

// ---- the statistics ----

template <class T>
__global__ void __launch_bounds__(kThreads)
    moments_kernel(const __grid_constant__ Layout l, const T* __restrict__ x,
                   Moments<compute_t<T>>* __restrict__ partial) {
  using C = compute_t<T>;
  const int channel = static_cast<int>(blockIdx.x % l.channels),
            part = static_cast<int>(blockIdx.x / l.channels);
  const int parts = static_cast<int>(gridDim.x / l.channels);
  Moments<C> sum;
  const auto add = [&]<int N>(std::integral_constant<int, N>) {
    each_vector<N>(l, channel, part, parts, [&](long long at) {
      C v[N];
      read<T, N>(x + at, l.f16, v);
      Moments<C> m{C(N), 0, 0};
#pragma unroll
      for (int i = 0; i < N; ++i) m.mean += v[i];
      m.mean *= C(1) / N;
#pragma unroll
      for (int i = 0; i < N; ++i) m.squares += (v[i] - m.mean) * (v[i] - m.mean);
      sum = sum.joined(m);
    });
  };
  if (l.width == 1) {
    add(std::integral_constant<int, 1>());
  } else {
    add(std::integral_constant<int, gpu::Vector<T>::size>());
  }
  sum = gpu::block_combine(sum, Moments<C>{}, Join{});
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
template <class C>
__global__ void join_kernel(const Moments<C>* __restrict__ partial, int channels, int parts,
                            C* __restrict__ mean, C* __restrict__ var) {
  const int channel = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (channel >= channels) return;
  Moments<C> sum;
  for (int part = 0; part < parts; ++part)
    sum = sum.joined(partial[static_cast<long long>(part) * channels + channel]);
  mean[channel] = sum.mean;
  var[channel] = sum.squares / sum.count;
}

// ---- the sums of the gradients ----

template <class T>
__global__ void __launch_bounds__(kThreads)
    sums_kernel(const __grid_constant__ Layout l, const T* __restrict__ x, const T* __restrict__ g,
                const compute_t<T>* __restrict__ mean, compute_t<T>* __restrict__ partial) {
  using C = compute_t<T>;
  const int channel = static_cast<int>(blockIdx.x % l.channels),
            part = static_cast<int>(blockIdx.x / l.channels);
  const int parts = static_cast<int>(gridDim.x / l.channels);
  const C m = mean[channel];
  C db = 0, dw = 0;
  const auto add = [&]<int N>(std::integral_constant<int, N>) {
    each_vector<N>(l, channel, part, parts, [&](long long at) {
      C v[N], d[N];
      read<T, N>(x + at, l.f16, v);
      read<T, N>(g + at, l.f16, d);
      C flat = 0, tilted = 0;
#pragma unroll
      for (int i = 0; i < N; ++i) flat += d[i], tilted += d[i] * (v[i] - m);
      db += flat, dw += tilted;
    });
  };
  if (l.width == 1) {
    add(std::integral_constant<int, 1>());
  } else {
    add(std::integral_constant<int, gpu::Vector<T>::size>());
  }
  db = gpu::block_sum(db), dw = gpu::block_sum(dw);
  if (threadIdx.x == 0) partial[2ll * blockIdx.x] = db, partial[2ll * blockIdx.x + 1] = dw;
}
template <class C>
__global__ void add_kernel(const C* __restrict__ partial, int channels, int parts, const C* __restrict__ var,
                           C eps, C* __restrict__ dweight, C* __restrict__ dbias) {
  const int channel = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (channel >= channels) return;
  C db = 0, dw = 0;
  for (int part = 0; part < parts; ++part) {
    const C* const from = partial + 2 * (static_cast<long long>(part) * channels + channel);
    db += from[0], dw += from[1];
  }
  dbias[channel] = db;
  dweight[channel] = dw / sqrt(var[channel] + eps);
}

// ---- y and dx ----

/// to = (x - mean) scale + shift, or of gradients scale (g - flat - (x - mean) slope), by what a channel has of each.
template <class T, bool kBack>
__global__ void __launch_bounds__(kThreads)
    map_kernel(const __grid_constant__ Layout l, const T* __restrict__ x, const T* __restrict__ g,
               const compute_t<T>* __restrict__ mean, const compute_t<T>* __restrict__ var,
               const compute_t<T>* __restrict__ weight, const compute_t<T>* __restrict__ bias,
               const compute_t<T>* __restrict__ dweight, const compute_t<T>* __restrict__ dbias,
               compute_t<T> eps, T* __restrict__ to) {
  using C = compute_t<T>;
  const auto map = [&]<int N>(std::integral_constant<int, N>) {
    using Vector = gpu::Vector<T, N>;
    const long long first = static_cast<long long>(blockIdx.x) * kThreads * kUnroll + threadIdx.x;
    Vector in[kUnroll], gradient[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const long long v = first + u * kThreads;
      if (v >= l.vectors) break;
      in[u] = Vector::load_streaming(x + v * N);
      if (kBack) gradient[u] = Vector::load_streaming(g + v * N);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const long long v = first + u * kThreads;
      if (v >= l.vectors) break;
      const int c = l.channel_of(v);
      const C m = mean[c], r = 1 / sqrt(var[c] + eps), scale = weight ? weight[c] * r : r;
      C value[N], out[N];
      gpu::unpack(in[u], l.f16, value);
      if constexpr (kBack) {
        C d[N];
        gpu::unpack(gradient[u], l.f16, d);
        const C count = static_cast<C>(l.images * l.pixels);
        const C flat = dbias ? dbias[c] / count : 0, slope = dweight ? r * dweight[c] / count : 0;
#pragma unroll
        for (int i = 0; i < N; ++i) out[i] = scale * (d[i] - flat - (value[i] - m) * slope);
      } else {
        const C shift = bias ? bias[c] : 0;
#pragma unroll
        for (int i = 0; i < N; ++i) out[i] = (value[i] - m) * scale + shift;
      }
      gpu::pack<T, N>(out, l.f16).store(to + v * N);
    }
  };
  if (l.width == 1) {
    map(std::integral_constant<int, 1>());
  } else {
    map(std::integral_constant<int, gpu::Vector<T>::size>());
  }
}

// ---- launches ----

template <class T>
Layout layout_of(const Call& c, const Tensor& to) {
  constexpr int V = gpu::Vector<T>::size;
  const auto aligned = [](const Tensor& t) { return !t.defined() || gpu::is_aligned(t.raw_data(), 16); };
  Layout l{};
  l.images = c.images, l.channels = c.channels, l.pixels = c.pixels;
  l.width = c.pixels % V == 0 && aligned(c.x) && aligned(c.g) && aligned(to) ? V : 1;
  l.vectors = c.x.numel() / l.width;
  l.small = l.vectors < (std::int64_t{1} << 31);
  if (l.small) {
    l.run = gpu::Divider(static_cast<std::uint32_t>(c.pixels / l.width));
    l.channel = gpu::Divider(static_cast<std::uint32_t>(c.channels));
  }
  l.f16 = c.x.dtype() == DType::f16;
  return l;
}
// Parts of a channel, by the problem alone.
std::int64_t parts_of(const Layout& l) {
  const std::int64_t vectors = l.vectors / l.channels;
  return std::max<std::int64_t>(
      1, std::min(gpu::ceil_div(kWantedBlocks, l.channels), gpu::ceil_div(vectors, 2 * kThreads)));
}
template <class C>
const C* data(const Tensor& t) {
  return t.defined() ? t.data<C>() : nullptr;
}
template <class T, bool kBack>
void launch_map(const Call& c, const Layout& l, const Tensor& to) {
  using C = compute_t<T>;
  gpu::launch(c.op, map_kernel<T, kBack>, gpu::blocks_for(c.op, l.vectors, kThreads * kUnroll), kThreads, 0,
              l, static_cast<const T*>(c.x.raw_data()),
              kBack ? static_cast<const T*>(c.g.raw_data()) : nullptr, data<C>(c.mean), data<C>(c.var),
              data<C>(c.weight), data<C>(c.bias), c.training ? data<C>(c.dweight) : nullptr,
              c.training ? data<C>(c.dbias) : nullptr, c.eps, static_cast<T*>(to.raw_data()));
}

void forward_cuda(const Call& c) {
  gpu::visit_widths(c.x.dtype(), [&]<class T>(TypeTag<T>) {
    using C = compute_t<T>;
    const Layout l = layout_of<T>(c, c.y);
    if (c.training) {
      const std::int64_t parts = parts_of(l);
      const Tensor partial = Tensor::allocate({parts * c.channels, 3}, dtype_of<C>, c.x.device());
      auto* const moments = static_cast<Moments<C>*>(partial.raw_data());
      gpu::launch(c.op, moments_kernel<T>, gpu::blocks_for(c.op, parts * c.channels, 1), kThreads, 0, l,
                  static_cast<const T*>(c.x.raw_data()), moments);
      gpu::launch(c.op, join_kernel<C>, gpu::blocks_for(c.op, c.channels, kThreads), kThreads, 0, moments,
                  c.channels, parts, c.mean.data<C>(), c.var.data<C>());
    }
    launch_map<T, false>(c, l, c.y);
  });
}

void backward_cuda(const Call& c) {
  gpu::visit_widths(c.x.dtype(), [&]<class T>(TypeTag<T>) {
    using C = compute_t<T>;
    const Layout l = layout_of<T>(c, c.dx);
    const std::int64_t parts = parts_of(l);
    const Tensor partial = Tensor::allocate({parts * c.channels, 2}, dtype_of<C>, c.x.device());
    gpu::launch(c.op, sums_kernel<T>, gpu::blocks_for(c.op, parts * c.channels, 1), kThreads, 0, l,
                static_cast<const T*>(c.x.raw_data()), static_cast<const T*>(c.g.raw_data()), data<C>(c.mean),
                partial.data<C>());
    gpu::launch(c.op, add_kernel<C>, gpu::blocks_for(c.op, c.channels, kThreads), kThreads, 0,
                partial.data<C>(), c.channels, parts, data<C>(c.var), c.eps, c.dweight.data<C>(),
                c.dbias.data<C>());
    if (c.dx.defined()) launch_map<T, true>(c, l, c.dx);
  });
}

}  // namespace
}  // namespace ct::normalization::batch

CT_KERNELS(cuda, batch_norm,
           CT_BATCH_NORM_KERNELS(normalization::batch::forward_cuda, normalization::batch::backward_cuda))
