#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/workspace.h>
#include <cotangent/ops/sampling/sampling_internal.h>
#include <cotangent/ops/engine/random/draw.cuh>
#include <cotangent/ops/engine/rows/threshold.cuh>

// A block per row: the largest logit, the weights, what top_k and top_p drop, and the draw.

namespace ct::sampling {
namespace {

using random::kThreads;

template <class T>
__global__ void __launch_bounds__(kThreads) sample_kernel(const T* logits, std::int64_t* out, long long n,
                                                          Attrs attrs, int bits, std::uint64_t* workspace) {
  using C = compute_t<T>;
  using K = OrderKey<C>;
  __shared__ unsigned long long starts[kThreads];
  const long long r = blockIdx.x;
  const T* row = logits + r * n;
  std::uint64_t* weights = workspace + r * n;
  const auto key_at = [&](long long i) { return order_key(static_cast<C>(gpu::to_compute(row[i]))); };

  double max = -INFINITY;
  bool bad = false;
  for (long long i = threadIdx.x; i < n; i += kThreads) {
    const double x = gpu::to_compute(row[i]);
    bad = bad || x != x;
    max = fmax(max, x);
  }
  max = gpu::block_combine(max, -INFINITY, gpu::Larger{});
  if (__syncthreads_or(bad) || isinf(max)) {
    if (threadIdx.x == 0) out[r] = -1;
    return;
  }
  if (attrs.temperature == 0) {
    // The first of the largest: the smallest number, as the largest negative one.
    double first = -static_cast<double>(n);
    for (long long i = threadIdx.x; i < n; i += kThreads)
      if (static_cast<double>(gpu::to_compute(row[i])) == max) {
        first = -static_cast<double>(i);
        break;
      }
    first = gpu::block_combine(first, -INFINITY, gpu::Larger{});
    if (threadIdx.x == 0) out[r] = static_cast<std::int64_t>(-first);
    return;
  }

  K last = 0;
  if (attrs.top_k > 0 && attrs.top_k < n)
    last = rows::block_threshold<K>(n, static_cast<unsigned long long>(attrs.top_k), key_at,
                                    [](long long) { return 1ull; });
  unsigned long long mass[1] = {};
  for (long long i = threadIdx.x; i < n; i += kThreads) {
    const double x = gpu::to_compute(row[i]);
    const std::uint64_t w = key_at(i) < last ? 0 : weight_of(x, max, attrs.temperature, bits);
    weights[i] = w;
    mass[0] += w;
  }
  if (attrs.top_p < 1) {
    rows::block_totals(mass);
    last = rows::block_threshold<K>(n, kept_mass(attrs.top_p, mass[0]), key_at,
                                    [&](long long i) { return static_cast<unsigned long long>(weights[i]); });
    for (long long i = threadIdx.x; i < n; i += kThreads)  // each thread those it has written
      if (key_at(i) < last) weights[i] = 0;
  }
  random::Wheel wheel;
  wheel.build(weights, n, starts);
  if (threadIdx.x == 0)
    out[r] = wheel.position(random::target(attrs.draw.now(), static_cast<std::uint64_t>(r), wheel.total));
}

void forward_cuda(const Forward& f) {
  if (f.out().numel() == 0) return;
  const Tensor& x = f.in(0);
  const std::int64_t n = x.size(-1), rows = x.numel() / n;
  const gpu::Workspace workspace(static_cast<std::size_t>(x.numel()) * sizeof(std::uint64_t));
  visit_floating("sample_logits", x.dtype(), [&]<class T>(TypeTag<T>) {
    gpu::launch("sample_logits", sample_kernel<T>, gpu::blocks_for("sample_logits", rows, 1), kThreads, 0,
                x.data<T>(), f.out().data<std::int64_t>(), n, f.attrs<Attrs>(), random::weight_bits(n),
                static_cast<std::uint64_t*>(workspace.data()));
  });
}

}  // namespace
}  // namespace ct::sampling

CT_KERNELS(cuda, sampling, forward_only("sample_logits", sampling::forward_cuda))
