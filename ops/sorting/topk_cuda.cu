#include <cotangent/core/cuda/block_rank.h>
#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/ops/sorting/topk_internal.h>
#include <cotangent/ops/engine/rows/threshold.cuh>

// A block per row: the key of the k-th largest element is found by its bits; larger elements, and the first of the equal
// ones, are collected and sorted. The smallest have the largest complements of their keys. Where k is large, all rows
// are sorted instead (sort_rows.cu).

namespace ct::sorting {
namespace {

constexpr int kThreads = 512;
constexpr std::int64_t kMostChosen = 2048;  // which fit into shared memory

// Key and position, in an order without equals.
template <class K>
struct Item {
  K key;
  unsigned index;
  __device__ bool before(const Item& other) const {
    return key != other.key ? key > other.key : index < other.index;
  }
};

// Sorts `size` items, a power of two, by exchanging pairs.
template <class K>
__device__ void block_sort(Item<K>* items, int size) {
  for (int length = 2; length <= size; length *= 2)
    for (int distance = length / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int i = threadIdx.x; i < size / 2; i += kThreads) {
        const int a = i / distance * 2 * distance + i % distance, b = a + distance;
        const bool forwards = (a & length) == 0;
        const Item<K> x = items[a], y = items[b];
        if (y.before(x) == forwards) {
          items[a] = y;
          items[b] = x;
        }
      }
    }
  __syncthreads();
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    topk_kernel(const T* x, T* values, std::int64_t* indices, Rows rows, int k, int capacity, bool largest) {
  using C = compute_t<T>;
  using K = OrderKey<C>;
  extern __shared__ unsigned long long shared_items[];
  __shared__ int taken;
  Item<K>* items = reinterpret_cast<Item<K>*>(shared_items);
  const T* row = x + rows.start(blockIdx.x, rows.n);
  const auto key_at = [&](long long i) {
    const K key = order_key(static_cast<C>(gpu::to_compute(row[i * rows.inner])));
    return largest ? key : static_cast<K>(~key);
  };

  const K last = rows::block_threshold<K>(rows.n, static_cast<unsigned long long>(k), key_at,
                                          [](long long) { return 1ull; });
  for (int i = threadIdx.x; i < capacity; i += kThreads) items[i] = {0, ~0u};
  if (threadIdx.x == 0) taken = 0;
  __syncthreads();
  // Larger ones in any order: they are sorted yet. Their number is below k.
  for (long long i = threadIdx.x; i < rows.n; i += kThreads) {
    const K key = key_at(i);
    if (key > last) items[atomicAdd(&taken, 1)] = {key, static_cast<unsigned>(i)};
  }
  __syncthreads();
  int filled = taken;
  // Equal ones in the order of their positions, as many as there is room for.
  for (long long first = 0; first < rows.n && filled < k; first += kThreads) {
    const long long i = first + threadIdx.x;
    const bool equal = i < rows.n && key_at(i) == last;
    int total;
    const int slot = filled + gpu::block_rank<kThreads>(equal, total);
    if (equal && slot < k) items[slot] = {last, static_cast<unsigned>(i)};
    filled += total;
  }
  block_sort(items, capacity);
  const long long to = rows.start(blockIdx.x, k);
  for (int j = threadIdx.x; j < k; j += kThreads) {
    const long long from = items[j].index;
    values[to + j * rows.inner] = row[from * rows.inner];
    indices[to + j * rows.inner] = from;
  }
}

template <class T>
__global__ void __launch_bounds__(256)
    gradient_kernel(const T* g, const std::int64_t* indices, T* dx, Rows rows, long long k) {
  const long long count = rows.rows * k, step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long e = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; e < count; e += step) {
    // Element e is (outer, j, inner) of the results.
    const long long outer = e / (k * rows.inner), inner = e % rows.inner;
    dx[outer * rows.n * rows.inner + indices[e] * rows.inner + inner] = g[e];
  }
}

void forward_cuda(const Forward& f) {
  if (f.out().numel() == 0) return;
  const Tensor& x = f.in(0);
  const Choice rows(f.op, f.attrs_view, x.shape(), f.out().shape());
  const bool largest = f.attrs<Attrs>().descending;
  std::int64_t capacity = 1;
  while (capacity < rows.k) capacity *= 2;
  if (rows.k > rows.n / 2 || capacity > kMostChosen || rows.n > UINT32_MAX)
    return sort_cuda(f, rows, largest);
  visit_numeric(f.op.name, x.dtype(), [&]<class T>(TypeTag<T>) {
    gpu::launch(f.op.name, topk_kernel<T>, gpu::blocks_for(f.op.name, rows.rows, 1), kThreads,
                static_cast<std::size_t>(capacity) * sizeof(Item<OrderKey<compute_t<T>>>),
                static_cast<const T*>(x.data<T>()), f.out().data<T>(), f.out(1).data<std::int64_t>(), rows,
                rows.k, capacity, largest);
  });
}

void backward_cuda(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor& dx = b.grad_in(0);
  zero_bytes(dx.raw_data(), dx.device(), static_cast<std::size_t>(dx.nbytes()));
  const Tensor& g = b.grad();
  if (g.numel() == 0) return;
  const Choice rows(b.op, b.attrs_view, dx.shape(), g.shape());
  visit_fast(b.op.name, dx.dtype(), [&]<class T>(TypeTag<T>) {
    gpu::launch(b.op.name, gradient_kernel<T>, gpu::grid_stride_blocks(g.numel(), 256), 256, 0, g.data<T>(),
                b.out(1).data<std::int64_t>(), dx.data<T>(), rows, rows.k);
  });
}

}  // namespace
}  // namespace ct::sorting

CT_KERNELS(cuda, topk, {"topk", sorting::forward_cuda, sorting::backward_cuda},
           {"sort", sorting::forward_cuda, sorting::backward_cuda})
