#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/convolution/flat_internal.h>
#include <cotangent/ops/convolution/strided_internal.h>
#include <cotangent/ops/engine/fold/sum.h>
#include <cotangent/ops/engine/walk/copy.h>

// Convolutions with a stride by those of stride 1 (strided_internal.h): x is split into phases, or its gradient merged out
// of theirs, and filters are brought into the order of the phases, or their gradient out of it. Elements are not looked
// into.

namespace ct::convolution {
namespace {

constexpr int kOrderThreads = 256;

/// Elements that a thread writes at once.
template <class E>
struct alignas(sizeof(E) == 8 ? 16 : 4 * sizeof(E)) Few {
  static constexpr int count = sizeof(E) == 8 ? 2 : 4;
  E each[count];
};

struct Split {
  Phases down, across;
  int channels;
  gpu::Divider shares;  // what threads have of an image's plane
};

// Stores the elements from `at` on, of a plane of `size`.
template <class E>
__device__ __forceinline__ void store(E* plane, int at, int size, const Few<E>& few) {
  if (size % Few<E>::count == 0)
    *reinterpret_cast<Few<E>*>(plane + at) = few;
  else
    for (int e = 0; e < Few<E>::count && at + e < size; ++e) plane[at + e] = few.each[e];
}

// Images are counted in blockIdx.y. A thread has the same few elements of all phases of a channel.
template <class E>
__global__ void __launch_bounds__(kOrderThreads)
    split_kernel(const __grid_constant__ Split s, const E* __restrict__ x, E* __restrict__ to, int images) {
  constexpr int kCount = Few<E>::count;
  const std::uint32_t i = blockIdx.x * kOrderThreads + threadIdx.x;
  const int c = static_cast<int>(s.shares.divide(i)),
            at = static_cast<int>(i - c * s.shares.divisor) * kCount;
  if (c >= s.channels) return;
  const Phases &down = s.down, &across = s.across;
  const int size = down.size * across.size, phases = down.count * across.count;
  int row[kCount], column[kCount];
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
    row[e] = static_cast<int>(across.sizes.divide(at + e));
    column[e] = at + e - row[e] * across.size;
  }
  for (int n = blockIdx.y; n < images; n += gridDim.y) {
    const E* const plane = x + (static_cast<long long>(n) * s.channels + c) * down.in * across.in;
    E* const phase = to + (static_cast<long long>(n) * phases * s.channels + c) * size;
    for (int k = 0; k < phases; ++k) {
      const int r = k / across.count;
      Few<E> few;
#pragma unroll
      for (int e = 0; e < kCount; ++e) {
        const int h = down.seen(r, row[e]), w = across.seen(k - r * across.count, column[e]);
        few.each[e] = h >= 0 && w >= 0 ? plane[h * across.in + w] : E(0);
      }
      store(phase + static_cast<long long>(k) * s.channels * size, at, size, few);
    }
  }
}

// Merges the phases again. An element in no phase becomes the channel's element of `unseen`, or 0.
template <class E>
__global__ void __launch_bounds__(kOrderThreads)
    merge_kernel(const __grid_constant__ Split s, const gpu::Divider width, const E* __restrict__ from,
                 const E* __restrict__ unseen, E* __restrict__ x, int images) {
  constexpr int kCount = Few<E>::count;
  const std::uint32_t i = blockIdx.x * kOrderThreads + threadIdx.x;
  const int c = static_cast<int>(s.shares.divide(i)),
            at = static_cast<int>(i - c * s.shares.divisor) * kCount;
  if (c >= s.channels) return;
  const Phases &down = s.down, &across = s.across;
  const int size = down.size * across.size;
  const int down_stride = static_cast<int>(down.stride.divisor),
            across_stride = static_cast<int>(across.stride.divisor);
  int row = static_cast<int>(width.divide(at)), column = at - row * across.in;
  int w = static_cast<int>(across.stride.divide(column)), residue = column - w * across_stride;
  int place[kCount];
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
    const int h = static_cast<int>(down.stride.divide(row));
    const int k = down.phase_at(row - h * down_stride), l = across.phase_at(residue);
    const int channel = (k * across.count + l) * s.channels + c;
    const bool there = k != Phases::kNone && l != Phases::kNone && row < down.in;
    place[e] = there ? channel * size + h * across.size + w : -1;
    if (++residue == across_stride) residue = 0, ++w;
    if (++column == across.in) column = w = residue = 0, ++row;
  }
  const E none = unseen ? unseen[c] : E(0);
  const long long image = static_cast<long long>(down.count * across.count) * s.channels * size;
  for (int n = blockIdx.y; n < images; n += gridDim.y) {
    Few<E> few;
#pragma unroll
    for (int e = 0; e < kCount; ++e) few.each[e] = place[e] >= 0 ? from[n * image + place[e]] : none;
    store(x + (static_cast<long long>(n) * s.channels + c) * down.in * across.in, at, down.in * across.in,
          few);
  }
}

// Filters [O, C, kH, kW] into the order of the phases, whose other taps are zeros already, or `back`.
template <class E>
__global__ void __launch_bounds__(kOrderThreads)
    filters_kernel(const __grid_constant__ Split s, E* filters, E* phased, long long count, bool back) {
  const long long i = static_cast<long long>(blockIdx.x) * kOrderThreads + threadIdx.x;
  if (i >= count) return;
  const Phases &down = s.down, &across = s.across;
  const int w = static_cast<int>(i % across.taps), h = static_cast<int>(i / across.taps % down.taps);
  const long long filter = i / (across.taps * down.taps), o = filter / s.channels, c = filter % s.channels;
  const int phase = down.phase[h] * across.count + across.phase[w];
  const long long at =
      ((o * down.count * across.count + phase) * s.channels + c) * (down.kernel * across.kernel) +
      down.tap[h] * across.kernel + across.tap[w];
  back ? filters[i] = phased[at] : phased[at] = filters[i];
}

// ---- launches ----

template <class E>
void order_filters(const char* op, const Split& s, const Tensor& filters, const Tensor& phased, bool back) {
  gpu::launch(op, filters_kernel<E>, gpu::blocks_for(op, filters.numel(), kOrderThreads), kOrderThreads, 0, s,
              static_cast<E*>(filters.raw_data()), static_cast<E*>(phased.raw_data()), filters.numel(), back);
}

// `to` of `from`, a plane of which has `size` elements on the side that is written.
template <class E, class Kernel, class... Args>
void launch_images(const char* op, Kernel kernel, Split s, std::int64_t size, const Tensor& images,
                   Args... args) {
  const std::int64_t shares = gpu::ceil_div(size, Few<E>::count), n = images.size(0);
  s.shares = gpu::Divider(static_cast<std::uint32_t>(shares));
  gpu::launch(op, kernel,
              dim3(gpu::blocks_for(op, s.channels * shares, kOrderThreads),
                   static_cast<unsigned>(std::min<std::int64_t>(n, 65535))),
              kOrderThreads, 0, s, args..., n);
}

template <class E>
void run_phases(const Job& job, const Split& s, const Geometry& phased, Run run) {
  const Tensor &x = *job.parts[0], &weight = *job.parts[1];
  const bool of_weight = job.result == Part::weight;
  const Tensor xs = Tensor::allocate({phased.batch, phased.channels, phased.height.in, phased.width.in},
                                     x.dtype(), x.device());
  const Tensor filters =
      Tensor::allocate({phased.filters, phased.channels, phased.height.kernel, phased.width.kernel},
                       of_weight ? DType::f32 : weight.dtype(), x.device());
  const std::int64_t size = phased.height.in * phased.width.in;
  Job part{job.op, phased, job.result, {&xs, &filters, job.parts[2]}, job.bias};
  if (job.result != Part::x) {
    if constexpr (sizeof(E) == 2)
      launch_images<E>(job.op, split_kernel<E>, s, size, x, static_cast<const E*>(x.raw_data()),
                       static_cast<E*>(xs.raw_data()));
  }
  if (of_weight) {
    run(part);
    const Tensor picked = Tensor::allocate(weight.shape(), DType::f32, x.device());
    order_filters<std::uint32_t>(job.op, s, picked, filters, true);
    fold::sum_cuda(picked.view({1, weight.numel()}), 1, weight.view({weight.numel()}), 1, job.accumulate);
    return;
  }
  fill_kernel(filters, 0);
  order_filters<E>(job.op, s, weight, filters, false);
  Tensor bias;
  if (job.result == Part::x && job.bias) {
    const std::int64_t phases = s.down.count * s.across.count;
    bias = contiguous(job.bias->view({1, x.size(1)}).expand({phases, x.size(1)})).view({phased.channels});
    part.bias = &bias;
  }
  run(part);
  if (job.result == Part::x)
    launch_images<E>(
        job.op, merge_kernel<E>, s, job.g.in_pixels(), x, gpu::Divider(static_cast<std::uint32_t>(x.size(3))),
        static_cast<const E*>(xs.raw_data()),
        job.bias ? static_cast<const E*>(job.bias->raw_data()) : nullptr, static_cast<E*>(x.raw_data()));
}

constexpr int kTile = 64;  // channels of a tile of the flat kernels

// Number of products for each one that is needed.
double waste(const Geometry& g, const Geometry& phased, std::int64_t tile) {
  return static_cast<double>(gpu::ceil_div(phased.channels, tile) * tile * phased.taps()) /
         static_cast<double>(g.channels * g.taps());
}

// The phases of a part for the flat kernels. For y, columns of few channels are unfolded, so that a tile is not mostly
// zeros; dw is computed for nine taps.
bool find_flat(const Job& job, DType dtype, Split& s, Geometry& phased) {
  const Geometry& g = job.g;
  const int kernel = job.result == Part::weight ? 3 : 0;
  if (!find_phases(g.height, kernel, s.down)) return false;
  const bool unfold = job.result == Part::y && g.channels * s.down.count * g.width.kernel <= kTile;
  if (!find_phases(g.width, unfold ? 1 : kernel, s.across)) return false;
  phased = of_phases(g, s.down, s.across);
  constexpr double kGain = 4.5;  // of the flat kernels over the general one, at least
  return waste(g, phased, kTile) < kGain && takes_flat(phased, dtype, job.result);
}

// Phases for the general kernel, which for dx multiplies a zero wherever the stride does not divide a place.
bool find_general(const Job& job, Split& s, Geometry& phased) {
  const Geometry& g = job.g;
  if (job.result != Part::x || !find_phases(g.height, 0, s.down) || !find_phases(g.width, 0, s.across))
    return false;
  phased = of_phases(g, s.down, s.across);
  return 2 * waste(g, phased, 1) < static_cast<double>(g.height.stride * g.width.stride);
}

}  // namespace

bool run_strided(const Job& job, Run run) {
  const Geometry& g = job.g;
  if ((g.height.stride == 1 && g.width.stride == 1) || g.groups != 1 || g.batch == 0) return false;
  const DType dtype = job.parts[0]->dtype();
  Split s;
  Geometry phased = g;
  if (!find_flat(job, dtype, s, phased)) {
    s = Split();
    if (!find_general(job, s, phased)) return false;
  }
  s.channels = static_cast<int>(g.channels);
  constexpr std::int64_t kMost = 1 << 30;  // elements of an image
  if (std::max(g.channels * g.in_pixels(), phased.channels * phased.in_pixels()) > kMost) return false;
  switch (size_of(dtype)) {
    case 2: run_phases<std::uint16_t>(job, s, phased, run); break;
    case 4: run_phases<std::uint32_t>(job, s, phased, run); break;
    default: run_phases<std::uint64_t>(job, s, phased, run);
  }
  return true;
}

}  // namespace ct::convolution
