#include <algorithm>

#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/convolution/pooling_internal.h>

// A thread for a place of each element of a pool, and for a patch of its gradient, which the same windows may hold: no two
// write to one place. It finds out once which elements or windows it looks at, and then goes through images, of each of
// which it asks for all it needs at once.

namespace ct::convolution::pooling {
namespace {

constexpr int kThreads = 256;
constexpr int kSmall = 3;  // rows and columns of windows that have a kernel of their own
constexpr int kDown = 2;   // rows and columns of a patch
template <class T>
constexpr int kAcross = sizeof(T) == 8 ? 2 : 4;

/// The threads of an image and of a row, and the images that are worked on at a time.
struct Shares {
  gpu::Divider image, row;
  long long at_once;
};

// Keeps the image's address in a register: else it is computed again for every element that is read.
template <class T>
__device__ __forceinline__ T* pinned(T* p) {
  asm("" : "+l"(p));
  __builtin_assume(__isGlobal(p));
  return p;
}

// The places of a small window's elements along an axis. Places outside of the image are replaced by the nearest inside,
// of which there is none if the first is below 0: an element that is seen twice in a row changes no maximum.
__device__ __forceinline__ void small_window(const Axis& axis, int p, int (&at)[kSmall]) {
#pragma unroll
  for (int i = 0; i < kSmall; ++i) {
    const int place = p * axis.stride - axis.padding + i * axis.dilation;
    const bool inside = i < axis.kernel && place >= 0 && place < axis.in;
    at[i] = inside ? place : i > 0 ? at[i - 1] : -1;
  }
#pragma unroll
  for (int i = kSmall - 2; i >= 0; --i) at[i] = at[i] < 0 ? at[i + 1] : at[i];
}

struct SmallWindow {
  int at[kSmall * kSmall];  // the first is below 0 if there are none

  __device__ __forceinline__ SmallWindow(const Windows& w, int p, int q) {
    int row[kSmall], column[kSmall];
    small_window(w.height, p, row);
    small_window(w.width, q, column);
#pragma unroll
    for (int i = 0; i < kSmall * kSmall; ++i) at[i] = row[i / kSmall] * w.width.in + column[i % kSmall];
    if (row[0] < 0 || column[0] < 0) at[0] = -1;
  }
  template <class T>
  __device__ __forceinline__ compute_t<T> largest(const T* x, std::int64_t& index) const {
    using C = compute_t<T>;
    C value[kSmall * kSmall];
#pragma unroll
    for (int i = 0; i < kSmall * kSmall; ++i) value[i] = gpu::to_compute(x[at[0] < 0 ? 0 : at[i]]);
    C best = at[0] < 0 ? -static_cast<C>(INFINITY) : value[0];
    int place = at[0];
#pragma unroll
    for (int i = 0; i < kSmall * kSmall; ++i) {
      const bool wins = at[0] >= 0 && (value[i] > best || value[i] != value[i]);
      best = wins ? value[i] : best;
      place = wins ? at[i] : place;
    }
    index = place;
    return best;
  }
};

// A patch of the gradient of a maximum, from (row, column) on.
template <class T>
struct Patch {
  using C = compute_t<T>;
  static constexpr int kCount = kAcross<T>, kWindows = 3;  // of a row, at once

  const Windows& w;
  int row, column, top, bottom, left, right;  // the patch, and the windows of all its elements

  __device__ __forceinline__ Patch(const Windows& windows, int first_row, int first_column)
      : w(windows),
        row(first_row),
        column(first_column),
        top(w.height.first(row)),
        bottom(w.height.last(min(row + kDown, w.height.in) - 1)),
        left(w.width.first(column)),
        right(w.width.last(min(column + kCount, w.width.in) - 1)) {}

  // The shares of all windows that have chosen an element.
  __device__ __forceinline__ void gather(const T* g, const std::int64_t* chosen, T* to) const {
    const int width = w.width.in, element = row * width + column;
    C sum[kDown][kCount] = {};
    for (int p0 = top; p0 < bottom; p0 += kDown)
      for (int q0 = left; q0 < right; q0 += kWindows) {
        int at[kDown][kWindows];
        C share[kDown][kWindows];
#pragma unroll
        for (int i = 0; i < kDown; ++i)
#pragma unroll
          for (int j = 0; j < kWindows; ++j) {
            const int window = (p0 + i) * w.width.out + q0 + j;
            const bool there = p0 + i < bottom && q0 + j < right;
            at[i][j] = there ? static_cast<int>(chosen[window]) - element : -1;
            share[i][j] = there ? gpu::to_compute(g[window]) : C(0);
          }
#pragma unroll
        for (int i = 0; i < kDown; ++i)
#pragma unroll
          for (int j = 0; j < kWindows; ++j)
#pragma unroll
            for (int r = 0; r < kDown; ++r)
#pragma unroll
              for (int c = 0; c < kCount; ++c)
                if (at[i][j] == r * width + c) sum[r][c] += share[i][j];
      }
#pragma unroll
    for (int r = 0; r < kDown; ++r) {
      if (row + r >= w.height.in) break;
      T* const line = to + element + r * width;
      gpu::Vector<T, kCount> all;
#pragma unroll
      for (int c = 0; c < kCount; ++c) all.set(c, gpu::from_compute<T>(sum[r][c]));
      if (width % kCount == 0) {
        all.store(line);
      } else {
        for (int c = 0; c < kCount && column + c < width; ++c) line[c] = all[c];
      }
    }
  }
};

// kCommon: a maximum of small windows; the gradient of a maximum, not of a mean.
template <class T, Work work, bool kCommon>
__global__ void __launch_bounds__(kThreads)
    pool_kernel(const __grid_constant__ Windows w, const __grid_constant__ Shares shares,
                const T* __restrict__ from, std::int64_t* indices, T* __restrict__ to, long long images) {
  using C = compute_t<T>;
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x, first = shares.image.divide(i);
  if (first >= shares.at_once) return;
  const std::uint32_t rest = i - first * shares.image.divisor;
  const int row = static_cast<int>(shares.row.divide(rest));
  const int column = static_cast<int>(rest) - row * static_cast<int>(shares.row.divisor);
  const auto each = [&](const auto& f) {  // f(index of the image's pool, pool, image)
    for (long long n = first; n < images; n += shares.at_once)
      f(indices ? indices + n * w.out_pixels() : nullptr, n * w.out_pixels(), n * w.in_pixels());
  };
  if constexpr (work == Work::gathered && kCommon) {
    const Patch<T> patch(w, row * kDown, column * kAcross<T>);
    each([&](const std::int64_t* index, long long pool, long long image) {
      patch.gather(pinned(from + pool), pinned(index), to + image);
    });
  } else if constexpr (work == Work::gathered) {
    const int top = w.height.first(row), bottom = w.height.last(row);
    const int left = w.width.first(column), right = w.width.last(column);
    const C divisor = top < bottom && left < right ? static_cast<C>(w.divisor(top, left)) : C(1);
    each([&](const std::int64_t*, long long pool, long long image) {
      C sum = 0;
      for (int p = top; p < bottom; ++p)
        for (int q = left; q < right; ++q)
          sum += gpu::to_compute(from[pool + p * w.width.out + q]) /
                 (p == top && q == left ? divisor : static_cast<C>(w.divisor(p, q)));
      to[image + rest] = gpu::from_compute<T>(sum);
    });
  } else if constexpr (kCommon) {
    const SmallWindow window(w, row, column);
    each([&](std::int64_t* index, long long pool, long long image) {
      to[pool + rest] = gpu::from_compute<T>(window.largest(pinned(from + image), index[rest]));
    });
  } else {
    each([&](std::int64_t* index, long long pool, long long image) {
      const T* const x = pinned(from + image);
      const auto read = [x](int at) { return gpu::to_compute(x[at]); };
      C value;
      if constexpr (work == Work::largest)
        value = largest<C>(w, row, column, read, index[rest]);
      else
        value = pooled<C>(w, row, column, read, index);
      to[pool + rest] = gpu::from_compute<T>(value);
    });
  }
}

void run_cuda(Work work, const Windows& w, const Tensor& from, const Tensor& indices, const Tensor& to) {
  const bool back = work == Work::gathered, patches = back && indices.defined();
  const std::int64_t images = to.numel() / (back ? w.in_pixels() : w.out_pixels());
  const int height = back ? w.height.in : w.height.out, width = back ? w.width.in : w.width.out;
  visit_floating("pool2d", to.dtype(), [&]<class T>(TypeTag<T>) {
    const std::int64_t row = patches ? gpu::ceil_div(width, kAcross<T>) : width;
    const std::int64_t image = row * (patches ? gpu::ceil_div(height, kDown) : height);
    const std::int64_t threads = std::int64_t{gpu::multiprocessors()} * (8 * 2048);  // that keep a GPU busy
    const std::int64_t at_once = std::min(images, gpu::ceil_div(threads, image));
    const auto divider = [](std::int64_t n) { return gpu::Divider(static_cast<std::uint32_t>(n)); };
    auto kernel = work == Work::largest  ? pool_kernel<T, Work::largest, false>
                  : work == Work::pooled ? pool_kernel<T, Work::pooled, false>
                  : patches              ? pool_kernel<T, Work::gathered, true>
                                         : pool_kernel<T, Work::gathered, false>;
    if constexpr (gpu::kFastShapes<T>) {
      const bool small = !w.height.adaptive && std::max(w.height.kernel, w.width.kernel) <= kSmall;
      if (work == Work::largest && small) kernel = pool_kernel<T, Work::largest, true>;
    }
    gpu::launch("pool2d", kernel, gpu::blocks_for("pool2d", at_once * image, kThreads), kThreads, 0, w,
                Shares{divider(image), divider(row), at_once}, static_cast<const T*>(from.raw_data()),
                indices.defined() ? indices.data<std::int64_t>() : nullptr, static_cast<T*>(to.raw_data()),
                images);
  });
}

}  // namespace
}  // namespace ct::convolution::pooling

CT_KERNELS(cuda, pooling, CT_POOLING_KERNELS(convolution::pooling::run_cuda))
