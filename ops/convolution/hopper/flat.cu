#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/fold/sum.h>
#include <cotangent/ops/convolution/hopper/product.cuh>
#include <cotangent/ops/convolution/hopper/weight.cuh>

namespace ct::convolution {
namespace {

constexpr int kMostShared = 227 * 1024;  // of a block
constexpr int kFewestTaps = 9;           // that are worth turning images for 64 filters only
constexpr int kWantedBlocks = 132;       // for the gradient of the weight, whose last bits depend on it

// Filters as panels, one for each tap of 64 filters and 64 channels: [tiles of filters, groups, taps, panel], for x's
// gradient the last tap first.
__global__ void __launch_bounds__(256)
    panels_kernel(const Word* __restrict__ w, Word* __restrict__ to, int taps, int rows, int depth,
                  long long row_stride, long long depth_stride, bool back, long long count) {
  const long long i = std::int64_t{blockIdx.x} * 256 + threadIdx.x;
  if (i >= count) return;
  const int at = static_cast<int>(i % (kPanel / 2)), groups = (depth + kChannels - 1) / kChannels;
  const long long panel = i / (kPanel / 2);
  const int tap = static_cast<int>(panel % taps), group = static_cast<int>(panel / taps % groups);
  const int line = at / kChannels, row = static_cast<int>(panel / taps / groups) * kChannels + line;
  const int k = group * kChannels + (at % kChannels / 8 ^ (line & 7)) * 8 + at % 8;
  to[i] = row < rows && k < depth ? w[row * row_stride + k * depth_stride + (back ? taps - 1 - tap : tap)]
                                  : Word(0);
}

// Pixels of a plane of `t`, [N, C, H, W], that can be accessed at once: 8, 4, or 0 for fewer.
int vector_of(const Tensor& t) {
  const std::int64_t plane = t.size(2) * t.size(3);
  return !gpu::is_aligned(t.raw_data(), 16) || plane % 4 ? 0 : plane % 8 ? 4 : 8;
}
Planes planes_of(const Tensor& t) {
  const auto narrow = [](std::int64_t n) { return static_cast<int>(n); };
  const auto divider = [](std::int64_t n) { return gpu::Divider(static_cast<std::uint32_t>(n)); };
  return {static_cast<const Word*>(t.raw_data()),
          narrow(t.size(1)),
          narrow(t.size(2)),
          narrow(t.size(3)),
          vector_of(t),
          divider(t.size(3)),
          divider(gpu::ceil_div(t.size(2) * t.size(3), 8))};
}
int whole_rows(int rows) { return (rows + 7) / 8 * 8; }

template <class T>
void convolve(const Job& job, const Flat& f, const Planes& x, const ProductLayout& layout) {
  const Geometry& g = job.g;
  const bool back = job.result == Part::x;
  const Tensor& weight = *job.parts[static_cast<std::size_t>(Part::weight)];
  const int filters = static_cast<int>(back ? g.channels : g.filters);
  const std::int64_t tiles = gpu::ceil_div(filters, kChannels), groups = gpu::ceil_div(x.channels, kChannels);
  const Tensor panels =
      Tensor::allocate({tiles, groups, f.taps, kPanel / 2}, weight.dtype(), weight.device());
  const std::int64_t filter = g.channels * f.taps;  // in memory
  gpu::launch(job.op, panels_kernel, gpu::blocks_for(job.op, panels.numel(), 256), 256, 0,
              static_cast<const Word*>(weight.raw_data()), static_cast<Word*>(panels.raw_data()), f.taps,
              filters, x.channels, back ? f.taps : filter, back ? filter : f.taps, back, panels.numel());
  const std::int64_t blocks = std::max<std::int64_t>(1, gpu::multiprocessors() / tiles);
  gpu::launch(job.op, hopper_product_kernel<T>,
              dim3(static_cast<unsigned>(std::min(blocks, gpu::ceil_div(f.positions, kHalf))),
                   static_cast<unsigned>(tiles)),
              kProductThreads, static_cast<std::size_t>(layout.bytes()), f, x, layout,
              static_cast<const Word*>(panels.raw_data()),
              job.bias ? static_cast<const T*>(job.bias->raw_data()) : nullptr,
              static_cast<Word*>(job.out().raw_data()), filters);
}

template <class T>
void weight_gradient(const Job& job, const Flat& f, const Planes& x, const Planes& g,
                     const WeightLayout& layout) {
  const std::int64_t channel_tiles = gpu::ceil_div(x.channels, kChannels);
  const std::int64_t filter_tiles = gpu::ceil_div(g.channels, kChannels);
  const std::int64_t splits = std::max<std::int64_t>(
      1, std::min(kWantedBlocks / (channel_tiles * filter_tiles), gpu::ceil_div(f.positions, kPart)));
  const std::int64_t size = job.out().numel();
  const Tensor partial = Tensor::allocate({splits, size}, DType::f32, job.out().device());
  gpu::launch(job.op, hopper_weight_kernel<T>,
              dim3(static_cast<unsigned>(splits), static_cast<unsigned>(channel_tiles),
                   static_cast<unsigned>(filter_tiles)),
              kWeightThreads, static_cast<std::size_t>(layout.bytes()), f, x, g, layout,
              partial.data<float>());
  fold::sum_cuda(partial, 1, job.out().view({size}), 1, job.accumulate);
}

}  // namespace

namespace {

WeightLayout weight_layout(const Flat& f) { return {whole_rows(f.seen(kPart))}; }
ProductLayout product_layout(const Flat& f) {
  const int plane = static_cast<int>(f.out_pixels.divisor);
  ProductLayout layout{std::min(f.taps, kFewestTaps), whole_rows(f.seen(kTile)), plane % 8 ? 4 : 8};
  while (layout.bytes() > kMostShared && layout.slots > 2) --layout.slots;
  return layout;
}

}  // namespace

bool takes_hopper(const Flat& f, Part result) {
  if (f.seen(0) > kMostShared / 128) return false;  // rows alone; sizes below would be too large for an int
  const int bytes = result == Part::weight ? weight_layout(f).bytes() : product_layout(f).bytes();
  return f.taps >= kFewestTaps && static_cast<std::int64_t>(f.in_height) * f.in_width % 4 == 0 &&
         f.out_pixels.divisor % 4 == 0 && bytes <= kMostShared &&
         gpu::compiled_arch<panels_kernel>("conv2d") != 0;
}

bool run_hopper(const Job& job, const Flat& f) {
  const auto part = [&](Part p) -> const Tensor& { return *job.parts[static_cast<std::size_t>(p)]; };
  if (!takes_hopper(f, job.result) || vector_of(part(Part::x)) == 0 || vector_of(part(Part::y)) == 0)
    return false;
  const bool brain = part(Part::x).dtype() == DType::bf16;
  if (job.result == Part::weight) {
    const WeightLayout layout = weight_layout(f);
    const Planes x = planes_of(part(Part::x)), g = planes_of(part(Part::y));
    brain ? weight_gradient<BFloat16>(job, f, x, g, layout) : weight_gradient<Half>(job, f, x, g, layout);
    return true;
  }
  const Planes x = planes_of(part(job.result == Part::x ? Part::y : Part::x));
  const ProductLayout layout = product_layout(f);
  brain ? convolve<BFloat16>(job, f, x, layout) : convolve<Half>(job, f, x, layout);
  return true;
}

}  // namespace ct::convolution
