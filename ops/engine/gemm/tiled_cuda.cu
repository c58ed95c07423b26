#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/workspace.h>
#include <cotangent/ops/engine/gemm/gemm_cuda.h>
#include <cotangent/ops/engine/gemm/replace.h>

// The GPU's backend of products, and the kernels for what cuBLASLt does not do, or does badly: integers,
// unusual strides, dot products.

namespace ct {
namespace gemm {
namespace {

using namespace gpu;

// ---- any product: tiles in shared memory ----------------------------------------------------------------

constexpr int kTile = 16;

// A block computes a kTile x kTile tile of C, a thread one element, walking k in steps of kTile. Tiles are
// numbered along n, then m, then the batch.
template <class T, class Out>
__global__ void __launch_bounds__(kTile* kTile) tiled_kernel(Product p, long long tiles) {
  using Acc = accumulate_t<T>;
  __shared__ Acc a_tile[kTile][kTile + 1];
  __shared__ Acc b_tile[kTile][kTile + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  const long long tiles_n = (p.n + kTile - 1) / kTile, tiles_m = (p.m + kTile - 1) / kTile;
  for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const long long j = tile % tiles_n * kTile + x;
    const long long i = tile / tiles_n % tiles_m * kTile + y;
    const long long s = tile / tiles_n / tiles_m;
    const T* a = static_cast<const T*>(p.a) + s * p.a_batch;
    const T* b = static_cast<const T*>(p.b) + s * p.b_batch;
    Acc sum = 0;
    for (long long p0 = 0; p0 < p.k; p0 += kTile) {
      a_tile[y][x] = i < p.m && p0 + x < p.k
                         ? static_cast<Acc>(to_compute(a[i * p.a_row + (p0 + x) * p.a_col]))
                         : Acc(0);
      b_tile[y][x] = j < p.n && p0 + y < p.k
                         ? static_cast<Acc>(to_compute(b[(p0 + y) * p.b_row + j * p.b_col]))
                         : Acc(0);
      __syncthreads();
#pragma unroll
      for (int q = 0; q < kTile; ++q) sum += a_tile[y][q] * b_tile[q][x];
      __syncthreads();
    }
    if (i < p.m && j < p.n) {
      Out& c = static_cast<Out*>(p.c)[s * p.c_batch + i * p.c_row + j];
      if (p.accumulate) sum += static_cast<Acc>(to_compute(c));
      c = from_compute<Out>(sum);
    }
  }
}

// ---- dot products ---------------------------------------------------------------------------------------

constexpr int kDotThreads = 512;
constexpr long long kDotPerBlock = 16384;
constexpr long long kDotBlocks = 1024;

// Every block sums its share of a . b into partial[block], or, if it is the only one, into c. The first `vectors` times
// 16 bytes are read by vectors.
template <class T, class Out>
__global__ void __launch_bounds__(kDotThreads)
    dot_kernel(Product p, long long vectors, accumulate_t<T>* partial) {
  using Vec = Vector<T>;
  using Acc = accumulate_t<T>;
  const T* a = static_cast<const T*>(p.a);
  const T* b = static_cast<const T*>(p.b);
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  Acc sum = 0;
  for (long long v = first; v < vectors; v += step) {
    const Vec x = Vec::load_streaming(a + v * Vec::size), y = Vec::load_streaming(b + v * Vec::size);
#pragma unroll
    for (int q = 0; q < Vec::size; ++q)
      sum += static_cast<Acc>(to_compute(x[q])) * static_cast<Acc>(to_compute(y[q]));
  }
  for (long long i = vectors * Vec::size + first; i < p.k; i += step)
    sum += static_cast<Acc>(to_compute(a[i * p.a_col])) * static_cast<Acc>(to_compute(b[i * p.b_row]));
  sum = gpu::block_sum(sum);
  if (threadIdx.x != 0) return;
  if (partial) {
    partial[blockIdx.x] = sum;
  } else {
    Out& c = *static_cast<Out*>(p.c);
    c = from_compute<Out>(p.accumulate ? sum + static_cast<Acc>(to_compute(c)) : sum);
  }
}

template <class Acc, class Out>
__global__ void dot_finish_kernel(const Acc* partial, int count, Out* c, bool accumulate) {
  Acc sum = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum += partial[i];
  sum = gpu::block_sum(sum);
  if (threadIdx.x == 0) *c = from_compute<Out>(accumulate ? sum + static_cast<Acc>(to_compute(*c)) : sum);
}

template <class T, class Out>
void dot(const char* op, const Product& p) {
  const bool aligned = p.a_col == 1 && p.b_row == 1 && is_aligned(p.a, 16) && is_aligned(p.b, 16);
  const long long vectors = aligned ? p.k / Vector<T>::size : 0;
  const long long wanted = ceil_div(p.k, kDotPerBlock);
  const unsigned blocks = static_cast<unsigned>(wanted < kDotBlocks ? wanted : kDotBlocks);
  using Acc = accumulate_t<T>;
  const Workspace workspace(blocks > 1 ? blocks * sizeof(Acc) : 0);
  Acc* partial = static_cast<Acc*>(workspace.data());
  launch(op, dot_kernel<T, Out>, blocks, kDotThreads, 0, p, vectors, partial);
  if (blocks > 1)
    launch(op, dot_finish_kernel<Acc, Out>, 1, kDotThreads, 0, partial, blocks, static_cast<Out*>(p.c),
           p.accumulate);
}

// Calls f with the types of the operands and of the result.
template <class F>
void visit_types(const char* op, const Product& p, const F& f) {
  visit_numeric(op, p.dtype, [&]<class T>(TypeTag<T> in) {
    if (p.c_dtype == p.dtype) return f(in, in);
    if constexpr (is_low_precision(dtype_of<T>)) f(in, TypeTag<float>{});
  });
}

}  // namespace

void gemm_tiled(const char* op, const Product& p) {
  const long long tiles = ceil_div(p.n, kTile) * ceil_div(p.m, kTile) * p.batch;
  visit_types(op, p, [&]<class T, class Out>(TypeTag<T>, TypeTag<Out>) {
    launch(op, tiled_kernel<T, Out>, grid_stride_blocks(tiles, 1, 32), dim3(kTile, kTile), 0, p, tiles);
  });
}

void gemm_dot(const char* op, const Product& p) {
  visit_types(op, p, [&]<class T, class Out>(TypeTag<T>, TypeTag<Out>) { dot<T, Out>(op, p); });
}

}  // namespace gemm

namespace gemm {
namespace {
void run_cuda(const Product& p) {
  if (!replaced(p, DeviceType::cuda)) gemm::gemm("matmul", p);
}
}  // namespace

const Backend cuda_backend{run_cuda, false, 8};
}  // namespace gemm

}  // namespace ct
