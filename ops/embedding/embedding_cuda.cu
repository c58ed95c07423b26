#include <bit>

#include <cub/device/device_radix_sort.cuh>

#include <cotangent/core/cuda/blas.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/device_error.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/embedding/embedding_internal.h>
#include <cotangent/ops/engine/walk/copy.h>

// Forward copies rows in words of up to 16 bytes.
//
// Backward sorts the pairs (row, place that read it) by row, which keeps the places of a row in their order.
// Then one warp per row of the table finds its places by a 32-ary search, sums their cotangents and writes
// the row, which is zeros if nobody read it: no element is written twice and nothing is added atomically.
// Rows that were read very often must not hold up a single warp: whole tiles of kTile sorted pairs that
// belong to one row are summed before, by a warp each, and the row's own warp adds those sums.

namespace ct::embedding_kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr unsigned kTile = 64;

// ---- forward ---------------------------------------------------------------------------------------------

// `group` lanes, a power of two, copy a row of `words` words; `stride` is the distance of the table's rows.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(const Word* __restrict__ table, long long stride, Indices indices, long long n,
                  long long rows, long long words, int group, Word* __restrict__ out,
                  ct::detail::DeviceErrors* errors, IndexSite site) {
  const int lane = static_cast<int>(threadIdx.x) % group;
  const long long i = static_cast<long long>(blockIdx.x) * (kThreads / group) + threadIdx.x / group;
  if (i >= n) return;
  const long long row = indices[i];
  Word* to = out + i * words;
  if (row < 0 || row >= rows) {
    if (lane == 0) gpu::report_index_error(errors, site, row, rows);
    for (long long w = lane; w < words; w += group) to[w] = Word{};
    return;
  }
  const Word* from = table + row * stride;
#pragma unroll 4
  for (long long w = lane; w < words; w += group) to[w] = __ldg(from + w);
}

template <class Word>
void gather(const Tensor& weight, const Indices& indices, long long n, const Tensor& y) {
  const long long element = static_cast<long long>(size_of(y.dtype())), word = sizeof(Word);
  const long long words = weight.size(1) * element / word;
  int group = 1;
  while (group < 32 && group < words) group *= 2;
  gpu::launch("embedding", gather_kernel<Word>, gpu::blocks_for("embedding", n, kThreads / group), kThreads,
              0, static_cast<const Word*>(weight.raw_data()), weight.stride(0) * element / word, indices, n,
              weight.size(0), words, group, static_cast<Word*>(y.raw_data()), gpu::index_errors(),
              IndexSite{"embedding", IndexKind::token});
}

// ---- backward --------------------------------------------------------------------------------------------

// Places that read no row, or the padding row, get the key `rows`, behind all others.
__global__ void key_kernel(Indices indices, unsigned n, long long rows, long long padding,
                           unsigned* __restrict__ keys, unsigned* __restrict__ places) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const long long row = indices[i];
  keys[i] = static_cast<unsigned>(row < 0 || row >= rows || row == padding ? rows : row);
  places[i] = i;
}

// The number of sorted keys below `key`, for a warp: 32 probes at a time.
__device__ __forceinline__ unsigned lower_bound(const unsigned* __restrict__ keys, unsigned n, unsigned key) {
  const unsigned lane = threadIdx.x % 32;
  unsigned low = 0, high = n;
  while (high - low > 32) {
    const unsigned step = (high - low + 31) / 32, probe = low + (lane + 1) * step - 1;
    const bool below = probe < high && probe >= low && __ldg(keys + probe) < key;
    const unsigned count = __popc(__ballot_sync(~0u, below));
    const unsigned end = low + (count + 1) * step - 1;
    low += count * step;
    if (low > high) low = high;
    if (count < 32 && end < high) high = end;
  }
  const bool below = low + lane < high && __ldg(keys + low + lane) < key;
  return low + __popc(__ballot_sync(~0u, below));
}

// A warp's share of the columns: kLoads vectors of N elements per lane.
template <class T, int N, int kLoads>
struct Columns {
  using C = compute_t<T>;
  using Pack = gpu::Vector<T, N>;

  long long columns;
  long long first;  // of this lane; the next vector is 32 N columns further
  C sum[kLoads][N];

  __device__ __forceinline__ explicit Columns(long long columns)
      : columns(columns), first((static_cast<long long>(blockIdx.y) * kLoads * 32 + threadIdx.x % 32) * N) {
#pragma unroll
    for (int k = 0; k < kLoads; ++k)
#pragma unroll
      for (int j = 0; j < N; ++j) sum[k][j] = 0;
  }
  __device__ __forceinline__ long long at(int k) const { return first + k * 32 * N; }

  // Adds the rows of g named by places[begin] to places[end - 1], in this order; four are read at once.
  __device__ __forceinline__ void add(const T* __restrict__ g, const unsigned* __restrict__ places,
                                      unsigned begin, unsigned end) {
    unsigned i = begin;
    for (; i + 4 <= end; i += 4) add_some<4>(g, places + i);
    for (; i < end; ++i) add_some<1>(g, places + i);
  }
  template <int kRows>
  __device__ __forceinline__ void add_some(const T* __restrict__ g, const unsigned* __restrict__ places) {
    Pack packs[kRows][kLoads];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const T* row = g + __ldg(places + r) * columns;
#pragma unroll
      for (int k = 0; k < kLoads; ++k)
        if (at(k) < columns) packs[r][k] = Pack::load_readonly(row + at(k));
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int k = 0; k < kLoads; ++k)
        if (at(k) < columns) {
          C wide[N];
          packs[r][k].to_compute(wide);
#pragma unroll
          for (int j = 0; j < N; ++j) sum[k][j] += wide[j];
        }
  }
  __device__ __forceinline__ void add_sums(const C* __restrict__ row) {
#pragma unroll
    for (int k = 0; k < kLoads; ++k)
      if (at(k) < columns) {
#pragma unroll
        for (int j = 0; j < N; ++j) sum[k][j] += row[at(k) + j];
      }
  }
  __device__ __forceinline__ void store_sums(C* __restrict__ row) const {
#pragma unroll
    for (int k = 0; k < kLoads; ++k)
      if (at(k) < columns) {
#pragma unroll
        for (int j = 0; j < N; ++j) row[at(k) + j] = sum[k][j];
      }
  }
  __device__ __forceinline__ void store(T* row, bool accumulate) {
#pragma unroll
    for (int k = 0; k < kLoads; ++k)
      if (at(k) < columns) {
        if (accumulate) {
          C wide[N];
          Pack::load(row + at(k)).to_compute(wide);
#pragma unroll
          for (int j = 0; j < N; ++j) sum[k][j] += wide[j];
        }
        Pack::from_compute(sum[k]).store(row + at(k));
      }
  }
};

// The sum of every tile of kTile pairs that all belong to one row. (A warp searches for nothing here, so that it may as
// well have few columns.)
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    tile_kernel(const unsigned* __restrict__ keys, const unsigned* __restrict__ places, unsigned tiles,
                unsigned rows, const T* __restrict__ g, long long columns, compute_t<T>* __restrict__ sums) {
  const unsigned tile = blockIdx.x * kWarps + threadIdx.x / 32;
  if (tile >= tiles) return;
  const unsigned begin = tile * kTile, key = __ldg(keys + begin);
  if (key == rows || __ldg(keys + begin + kTile - 1) != key) return;
  Columns<T, N, 1> share(columns);
  share.add(g, places, begin, begin + kTile);
  share.store_sums(sums + tile * columns);
}

template <class T, int N, int kLoads>
__global__ void __launch_bounds__(kThreads)
    row_kernel(const unsigned* __restrict__ keys, const unsigned* __restrict__ places, unsigned n,
               unsigned rows, const T* __restrict__ g, long long columns,
               const compute_t<T>* __restrict__ sums, bool accumulate, T* __restrict__ dw) {
  const unsigned row = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const unsigned begin = lower_bound(keys, n, row);
  const unsigned seen = __popc(__ballot_sync(~0u, begin + lane < n && __ldg(keys + begin + lane) == row));
  if (seen == 0 && accumulate) return;
  const unsigned end = seen < 32 ? begin + seen : lower_bound(keys, n, row + 1);
  Columns<T, N, kLoads> share(columns);
  unsigned tile = (begin + kTile - 1) / kTile;
  const unsigned last = end / kTile;
  if (tile < last) {
    share.add(g, places, begin, tile * kTile);
#pragma unroll 4
    for (; tile < last; ++tile) share.add_sums(sums + tile * columns);
    share.add(g, places, last * kTile, end);
  } else {
    share.add(g, places, begin, end);
  }
  share.store(dw + row * columns, accumulate);
}

// n pairs (keys[i], places[i]) that are to be sorted, and room for the sums of their tiles.
struct Pairs {
  unsigned n, rows;
  std::size_t sort_bytes = 0, array_bytes;
  unsigned *keys[2] = {}, *places[2] = {};

  Pairs(unsigned n, unsigned rows) : n(n), rows(rows), array_bytes(padded(n * sizeof(unsigned))) {
    CT_CUDA_OP("embedding", sort(nullptr));
  }
  static std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  std::size_t bytes() const { return 4 * array_bytes + padded(sort_bytes); }

  // Lays the arrays out in `memory` and returns the address behind them.
  char* place(void* memory) {
    char* at = static_cast<char*>(memory);
    for (int k = 0; k < 2; ++k) {
      keys[k] = reinterpret_cast<unsigned*>(at + 2 * k * array_bytes);
      places[k] = reinterpret_cast<unsigned*>(at + (2 * k + 1) * array_bytes);
    }
    return at + bytes();
  }
  // Sorts, and leaves the result in keys[0] and places[0]; without memory only tells how much it needs.
  cudaError_t sort(void* memory) {
    cub::DoubleBuffer<unsigned> k(keys[0], keys[1]), p(places[0], places[1]);
    const cudaError_t status =
        cub::DeviceRadixSort::SortPairs(memory, sort_bytes, k, p, static_cast<int>(n), 0,
                                        static_cast<int>(std::bit_width(rows)), gpu::native_stream());
    keys[0] = k.Current();
    places[0] = p.Current();
    return status;
  }
};

template <class T, int N, int kLoads>
void sum_rows(const Pairs& pairs, const T* g, long long columns, compute_t<T>* sums, bool accumulate, T* dw) {
  const unsigned tiles = pairs.n / kTile;
  const auto vectors = static_cast<unsigned>(gpu::ceil_div(columns, 32 * N));
  if (tiles > 0)
    gpu::launch("embedding", tile_kernel<T, N>, dim3((tiles + kWarps - 1) / kWarps, vectors), kThreads, 0,
                pairs.keys[0], pairs.places[0], tiles, pairs.rows, g, columns, sums);
  gpu::launch("embedding", row_kernel<T, N, kLoads>,
              dim3((pairs.rows + kWarps - 1) / kWarps, (vectors + kLoads - 1) / kLoads), kThreads, 0,
              pairs.keys[0], pairs.places[0], pairs.n, pairs.rows, g, columns, sums, accumulate, dw);
}

}  // namespace

void forward_cuda(const Forward& f) {
  const Tensor& y = f.out();
  const Tensor& indices = f.in(1);
  const long long n = indices.numel();
  if (n == 0) return;  // without columns, indices are still checked
  const Tensor& weight = f.in(0);
  const std::size_t element = size_of(y.dtype());
  // The widest word that every row begins and ends with.
  const auto fits = [&](std::size_t bytes) {
    return static_cast<std::size_t>(weight.size(1)) * element % bytes == 0 &&
           static_cast<std::size_t>(weight.stride(0)) * element % bytes == 0 &&
           gpu::is_aligned(weight.raw_data(), bytes) && gpu::is_aligned(y.raw_data(), bytes);
  };
  const Indices index(indices);
  if (fits(16)) return gather<uint4>(weight, index, n, y);
  if (fits(4)) return gather<unsigned>(weight, index, n, y);
  gather<unsigned short>(weight, index, n, y);
}

void backward_cuda(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor& dw = b.grad_in(0);
  if (dw.numel() == 0) return;
  const bool accumulate = b.accumulate(0);
  const Tensor &indices = b.in(1), &g = b.grad();
  const std::int64_t n = indices.numel(), rows = dw.size(0), columns = dw.size(1);
  if (n == 0) {
    if (!accumulate)
      CT_CUDA_OP("embedding", cudaMemsetAsync(dw.raw_data(), 0, static_cast<std::size_t>(dw.nbytes()),
                                              gpu::native_stream()));
    return;
  }
  CT_CHECK(n < 0x7fffffff && rows < 0x7fffffff, ValueError, "embedding", "backward of ", n, " indices into ",
           rows, " rows; on CUDA at most 2147483646 of each are possible: split the batch");
  visit_fast("embedding", dw.dtype(), [&]<class T>(TypeTag<T>) {
    using C = compute_t<T>;
    Pairs pairs(static_cast<unsigned>(n), static_cast<unsigned>(rows));
    const std::size_t sums_bytes = pairs.n / kTile * static_cast<std::size_t>(columns) * sizeof(C);
    const gpu::Workspace workspace(pairs.bytes() + sums_bytes);
    C* sums = reinterpret_cast<C*>(pairs.place(workspace.data()));
    gpu::launch("embedding", key_kernel, gpu::blocks_for("embedding", n, 256), 256, 0, Indices(indices),
                pairs.n, rows, b.attrs<Attrs>().padding_row(rows), pairs.keys[0], pairs.places[0]);
    CT_CUDA_OP("embedding", pairs.sort(reinterpret_cast<char*>(sums) - Pairs::padded(pairs.sort_bytes)));
    const auto go = [&](auto kernel) {
      kernel(pairs, static_cast<const T*>(g.raw_data()), columns, sums, accumulate,
             static_cast<T*>(dw.raw_data()));
    };
    if constexpr (gpu::kFastShapes<T>) {
      constexpr int kPack = gpu::Vector<T>::size;
      const bool packs =
          columns % kPack == 0 && gpu::is_aligned(g.raw_data(), 16) && gpu::is_aligned(dw.raw_data(), 16);
      const std::int64_t loads = gpu::ceil_div(columns / kPack, 32);
      if (packs && loads == 1) return go(sum_rows<T, kPack, 1>);
      if (packs && loads % 4 != 0 && loads % 3 == 0) return go(sum_rows<T, kPack, 3>);
      if (packs) return go(sum_rows<T, kPack, 4>);
    }
    go(sum_rows<T, 1, 4>);
  });
}

}  // namespace ct::embedding_kernels

CT_KERNELS(cuda, embedding, {"embedding", embedding_kernels::forward_cuda, embedding_kernels::backward_cuda})
