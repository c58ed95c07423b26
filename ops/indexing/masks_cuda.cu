#include <cotangent/core/cuda/block_rank.h>
#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/walk/copy.h>

// Each block counts its part, one block sums the counts up, and each writes behind those before it: the order is that of
// the elements, whatever runs first.

namespace ct::indexing_impl::masks {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 16;
constexpr long long kPerBlock = kThreads * kPerThread;

__global__ void __launch_bounds__(kThreads)
    count_kernel(const unsigned char* __restrict__ x, long long n, long long* __restrict__ counts) {
  int count = 0;
  for (int u = 0; u < kPerThread; ++u) {
    const long long i = blockIdx.x * kPerBlock + u * kThreads + threadIdx.x;
    int total;
    gpu::block_rank<kThreads>(i < n && x[i] != 0, total);
    count += total;
  }
  if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

// counts[k] becomes the sum of those before it, counts[blocks] that of all. One block; a thread sums a stretch of them.
__global__ void __launch_bounds__(kThreads) scan_kernel(long long* counts, long long blocks) {
  __shared__ long long sums[kThreads];
  const long long share = (blocks + kThreads - 1) / kThreads;
  const long long begin = threadIdx.x * share, end = begin + share < blocks ? begin + share : blocks;
  long long sum = 0;
  for (long long k = begin; k < end; ++k) sum += counts[k];
  sums[threadIdx.x] = sum;
  __syncthreads();
  long long before = 0;
  for (int t = 0; t < static_cast<int>(threadIdx.x); ++t) before += sums[t];
  for (long long k = begin; k < end; ++k) {
    const long long count = counts[k];
    counts[k] = before;
    before += count;
  }
  if (threadIdx.x == kThreads - 1) counts[blocks] = before;
}

struct Sizes {
  int rank;
  long long size[kMaxRank];
};

__global__ void __launch_bounds__(kThreads)
    write_kernel(const unsigned char* __restrict__ x, long long n, const long long* __restrict__ starts,
                 const __grid_constant__ Sizes sizes, long long* __restrict__ out) {
  long long start = starts[blockIdx.x];
  for (int u = 0; u < kPerThread; ++u) {
    const long long i = blockIdx.x * kPerBlock + u * kThreads + threadIdx.x;
    const bool flag = i < n && x[i] != 0;
    int total;
    const int rank = gpu::block_rank<kThreads>(flag, total);
    if (flag) {
      long long* const to = out + (start + rank) * sizes.rank;
      long long rest = i;
      for (int k = sizes.rank - 1; k >= 0; --k) {
        to[k] = rest % sizes.size[k];
        rest /= sizes.size[k];
      }
    }
    start += total;
  }
}

void nonzero_cuda(const Forward& f) {
  const Tensor truth = converted(f.in(0), DType::boolean);
  const Shape& shape = truth.shape();
  const std::int64_t n = truth.numel();
  if (n == 0) {
    f.allocate_out(0, {0, shape.size()});
    return;
  }
  const unsigned blocks = gpu::blocks_for("nonzero", n, kPerBlock);
  const auto* const x = static_cast<const unsigned char*>(truth.raw_data());
  const Tensor counts = Tensor::allocate({static_cast<std::int64_t>(blocks) + 1}, DType::i64, truth.device());
  auto* const starts = static_cast<long long*>(counts.raw_data());
  gpu::launch("nonzero", count_kernel, blocks, kThreads, 0, x, n, starts);
  gpu::launch("nonzero", scan_kernel, 1, kThreads, 0, starts, blocks);
  std::int64_t found = 0;
  copy_bytes(&found, cpu, starts + blocks, truth.device(), sizeof found);
  const Tensor& out = f.allocate_out(0, {found, shape.size()});
  Sizes sizes{shape.size(), {}};
  for (int k = 0; k < sizes.rank; ++k) sizes.size[k] = shape[k];
  gpu::launch("nonzero", write_kernel, blocks, kThreads, 0, x, n, starts, sizes,
              static_cast<long long*>(out.raw_data()));
}

}  // namespace
}  // namespace ct::indexing_impl::masks

CT_KERNELS(cuda, masks, forward_only("nonzero", indexing_impl::masks::nonzero_cuda))
