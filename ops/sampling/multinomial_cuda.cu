#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/workspace.h>
#include <cotangent/ops/sampling/multinomial_internal.h>
#include <cotangent/ops/engine/random/draw.cuh>

// A block per row. With replacement each thread takes some of the draws; without, the block takes one after
// the other and the thread whose piece was hit takes the weight out of it.

namespace ct::sampling::weighted {
namespace {

using random::kThreads;

template <class T>
__global__ void __launch_bounds__(kThreads)
    multinomial_kernel(const T* w, std::int64_t* out, long long n, Attrs attrs, int bits,
                       std::uint64_t* workspace) {
  __shared__ unsigned long long starts[kThreads];
  const long long r = blockIdx.x;
  const T* row = w + r * n;
  std::uint64_t* weights = workspace + r * n;
  std::int64_t* ids = out + r * attrs.count;

  double top = 0;
  bool bad = false;
  for (long long i = threadIdx.x; i < n; i += kThreads) {
    const double v = gpu::to_compute(row[i]);
    bad = bad || !(v >= 0) || isinf(v);
    top = fmax(top, v);
  }
  top = gpu::block_combine(top, -INFINITY, gpu::Larger{});
  if (__syncthreads_or(bad) || top == 0) {
    for (long long j = threadIdx.x; j < attrs.count; j += kThreads) ids[j] = -1;
    return;
  }
  for (long long i = threadIdx.x; i < n; i += kThreads)
    weights[i] = random::weight(static_cast<double>(gpu::to_compute(row[i])), top, bits);
  random::Wheel wheel;
  wheel.build(weights, n, starts);

  const std::uint64_t first = static_cast<std::uint64_t>(r * attrs.count);
  const GeneratorState draw = attrs.draw.now();
  if (attrs.replacement) {
    for (long long j = threadIdx.x; j < attrs.count; j += kThreads)
      ids[j] = wheel.position(random::target(draw, first + j, wheel.total));
    return;
  }
  // The sum of this thread's piece is what is between its start and the next one's.
  unsigned long long mine =
      (threadIdx.x + 1 < kThreads ? starts[threadIdx.x + 1] : wheel.total) - starts[threadIdx.x];
  for (long long j = 0; j < attrs.count; ++j) {
    if (wheel.total == 0) {  // the same in all threads
      if (threadIdx.x == 0) ids[j] = -1;
      continue;
    }
    const unsigned long long at = random::target(draw, first + j, wheel.total);
    if (wheel.piece_of(at) == static_cast<int>(threadIdx.x)) {
      const long long id = wheel.position(at);
      ids[j] = id;
      mine -= weights[id];
      weights[id] = 0;
    }
    wheel.scan(mine);
  }
}

void forward_cuda(const Forward& f) {
  if (f.out().numel() == 0) return;
  const Tensor& w = f.in(0);
  const std::int64_t n = w.size(-1), rows = w.numel() / n;
  const gpu::Workspace workspace(static_cast<std::size_t>(w.numel()) * sizeof(std::uint64_t));
  visit_floating("multinomial", w.dtype(), [&]<class T>(TypeTag<T>) {
    gpu::launch("multinomial", multinomial_kernel<T>, gpu::blocks_for("multinomial", rows, 1), kThreads, 0,
                w.data<T>(), f.out().data<std::int64_t>(), n, f.attrs<Attrs>(), random::weight_bits(n),
                static_cast<std::uint64_t*>(workspace.data()));
  });
}

}  // namespace
}  // namespace ct::sampling::weighted

CT_KERNELS(cuda, multinomial, forward_only("multinomial", sampling::weighted::forward_cuda))
