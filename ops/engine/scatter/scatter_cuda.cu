#include <algorithm>
#include <bit>

#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/device_error.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/scatter/sorted_pairs_cuda.h>

// take() copies rows in words of up to 16 bytes.
//
// add() sorts the pairs (row, place that names it) by row, which keeps the places of a row in their order. Then one warp
// per row of the table finds its places by a 32-ary search, sums what lies there and writes the row, which is zeros if no
// index names it: no element is written twice and nothing is added atomically. Rows that are named very often must not be
// one warp's work: whole tiles of kTile sorted pairs that belong to one row are summed before, by a warp each. The row's
// own warp adds those sums. A row of a few elements leaves a warp idle: there a thread per element of a row and pair
// looks whether its pair is the first of the row, and sums those that follow.
//
// set() sorts likewise, and the last pair of each row writes it.

namespace ct::scatter_impl {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr std::int64_t kNarrow = 16;     // rows of fewer elements are summed by threads
constexpr std::int64_t kWide = 1 << 20;  // rows of more are cut, as a grid's second dimension is limited

// ---- take ------------------------------------------------------------------------------------------------

// `group` lanes, a power of two, copy a row of `words` words; `stride` is the distance of the table's rows.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    take_kernel(const Word* __restrict__ table, long long stride, const __grid_constant__ Selection rows,
                long long words, int group, Word* __restrict__ out, ct::detail::DeviceErrors* errors,
                IndexSite site) {
  const int lane = static_cast<int>(threadIdx.x) % group;
  const long long q = static_cast<long long>(blockIdx.x) * (kThreads / group) + threadIdx.x / group;
  if (q >= rows.count) return;
  const Selection::Place place = rows.place(q);
  Word* to = out + q * words;
  if (!rows.in_range(place.index)) {
    if (lane == 0) gpu::report_index_error(errors, site, place.index, rows.limit);
    for (long long w = lane; w < words; w += group) to[w] = Word{};
    return;
  }
  const Word* from = table + (place.base + place.index * rows.axis_step) * stride;
#pragma unroll 4
  for (long long w = lane; w < words; w += group) to[w] = __ldg(from + w);
}

// Calls f(TypeTag<Word>{}) with the widest word that all these numbers of bytes, and two addresses, are multiples of.
template <class F>
void with_word(std::int64_t row_bytes, std::int64_t stride_bytes, const void* a, const void* b, F&& f) {
  const auto fits = [&](std::int64_t bytes) {
    return row_bytes % bytes == 0 && stride_bytes % bytes == 0 &&
           gpu::is_aligned(a, static_cast<std::size_t>(bytes)) &&
           gpu::is_aligned(b, static_cast<std::size_t>(bytes));
  };
  if (fits(16)) return f(TypeTag<uint4>{});
  if (fits(8)) return f(TypeTag<uint2>{});
  if (fits(4)) return f(TypeTag<unsigned>{});
  if (fits(2)) return f(TypeTag<unsigned short>{});
  f(TypeTag<unsigned char>{});
}

// Number of lanes that copy a row of `words` words.
int lanes_for(std::int64_t words) {
  int group = 1;
  while (group < 32 && group < words) group *= 2;
  return group;
}

// ---- sorted pairs ----------------------------------------------------------------------------------------

// Places that name no row, or the one that is left out, get the key `rows`, behind all others.
__global__ void key_kernel(const __grid_constant__ Selection rows, unsigned* __restrict__ keys,
                           unsigned* __restrict__ places, ct::detail::DeviceErrors* errors, IndexSite site) {
  const unsigned q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= rows.count) return;
  const Selection::Place place = rows.place(q);
  const bool good = rows.in_range(place.index);
  if (!good && errors) gpu::report_index_error(errors, site, place.index, rows.limit);
  keys[q] = static_cast<unsigned>(good && place.index != rows.skip ? place.base + place.index * rows.axis_step
                                                                   : rows.rows);
  places[q] = q;
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

const Selection& checked(const char* op, const Selection& s) {
  CT_CHECK(s.count < 0x7fffffff && s.rows < 0x7fffffff, ValueError, op, "got ", s.count, " indices into ",
           s.rows, " places; on CUDA at most 2147483646 of each are possible: split the tensors");
  return s;
}

template <class T, int N, int kLoads>
void sum_rows(const char* op, const SortedPairs& pairs, const T* g, long long columns, compute_t<T>* sums,
              bool accumulate, T* dw) {
  const unsigned tiles = pairs.size() / kTile;
  const auto vectors = static_cast<unsigned>(gpu::ceil_div(columns, 32 * N));
  if (tiles > 0)
    gpu::launch(op, tile_kernel<T, N>, dim3((tiles + kWarps - 1) / kWarps, vectors), kThreads, 0,
                pairs.keys(), pairs.places(), tiles, pairs.rows, g, columns, sums);
  gpu::launch(op, row_kernel<T, N, kLoads>,
              dim3((pairs.rows + kWarps - 1) / kWarps, (vectors + kLoads - 1) / kLoads), kThreads, 0,
              pairs.keys(), pairs.places(), pairs.size(), pairs.rows, g, columns, sums, accumulate, dw);
}

// A thread per pair and column: that of the first pair of a row sums the pairs of that row, whole tiles by their sums.
template <class T>
__global__ void __launch_bounds__(kThreads)
    narrow_kernel(const unsigned* __restrict__ keys, const unsigned* __restrict__ places, unsigned n,
                  unsigned rows, const T* __restrict__ g, long long columns,
                  const compute_t<T>* __restrict__ sums, T* __restrict__ table) {
  const long long at = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  const long long first = at / columns, column = at - first * columns;
  if (first >= n) return;
  const unsigned key = __ldg(keys + first);
  if (key == rows || (first > 0 && __ldg(keys + first - 1) == key)) return;
  compute_t<T> sum = 0;
  for (long long i = first; i < n && __ldg(keys + i) == key;) {
    if (i % kTile == 0 && i + kTile <= n && __ldg(keys + i + kTile - 1) == key) {
      sum += sums[i / kTile * columns + column];
      i += kTile;
    } else {
      sum += gpu::to_compute(g[__ldg(places + i) * columns + column]);
      ++i;
    }
  }
  T* const to = table + key * columns + column;
  *to = gpu::from_compute<T>(sum + gpu::to_compute(*to));
}

// The last pair of each row copies its source there.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    set_kernel(const unsigned* __restrict__ keys, const unsigned* __restrict__ places, unsigned n,
               unsigned rows, const Word* __restrict__ source, long long words, int group,
               Word* __restrict__ table) {
  const int lane = static_cast<int>(threadIdx.x) % group;
  const long long i = static_cast<long long>(blockIdx.x) * (kThreads / group) + threadIdx.x / group;
  if (i >= n) return;
  const unsigned key = __ldg(keys + i);
  if (key == rows || (i + 1 < n && __ldg(keys + i + 1) == key)) return;
  const Word* from = source + __ldg(places + i) * words;
  Word* to = table + key * words;
#pragma unroll 4
  for (long long w = lane; w < words; w += group) to[w] = __ldg(from + w);
}

}  // namespace

SortedPairs::SortedPairs(const char* op, const IndexSite* site, const Selection& s, std::size_t more_bytes)
    : PairSort(op, static_cast<unsigned>(checked(op, s).count)),
      rows(static_cast<unsigned>(s.rows)),
      workspace(bytes() + more_bytes),
      more(place(workspace.data())) {
  gpu::launch(op, key_kernel, gpu::blocks_for(op, s.count, 256), 256, 0, s, keys(), places(),
              site ? gpu::index_errors() : nullptr, site ? *site : IndexSite{});
  sort(std::max(1, static_cast<int>(std::bit_width(rows))));
}

void take_cuda(IndexSite site, const Selection& s, std::int64_t columns, const Tensor& table,
               std::int64_t stride, const Tensor& y) {
  if (s.count == 0) return;  // without columns, indices are still checked
  const auto element = static_cast<std::int64_t>(size_of(y.dtype()));
  with_word(columns * element, stride * element, table.raw_data(), y.raw_data(),
            [&]<class Word>(TypeTag<Word>) {
              const auto size = static_cast<std::int64_t>(sizeof(Word));
              const std::int64_t words = columns * element / size;
              const int group = lanes_for(words);
              gpu::launch(site.op, take_kernel<Word>, gpu::blocks_for(site.op, s.count, kThreads / group),
                          kThreads, 0, static_cast<const Word*>(table.raw_data()), stride * element / size, s,
                          words, group, static_cast<Word*>(y.raw_data()), gpu::index_errors(), site);
            });
}

void add_cuda(const char* op, const IndexSite* site, const Selection& s, std::int64_t columns,
              const Tensor& source, const Tensor& table, bool accumulate) {
  const auto clear = [&] {
    if (!accumulate && table.numel() > 0)
      CT_CUDA_OP(op, cudaMemsetAsync(table.raw_data(), 0, static_cast<std::size_t>(table.nbytes()),
                                     gpu::native_stream()));
  };
  if (s.count == 0) return clear();
  if (columns > kWide) {
    std::int64_t parts = gpu::ceil_div(columns, kWide);
    while (columns % parts != 0) ++parts;
    return add_cuda(op, site, s.cut(parts), columns / parts, source, table, accumulate);
  }
  const auto go = [&]<class T>(TypeTag<T>) {
    using C = compute_t<T>;
    const SortedPairs pairs(op, site, s, static_cast<std::size_t>(s.count / kTile * columns) * sizeof(C));
    if (table.numel() == 0) return;  // indices are checked
    C* const sums = reinterpret_cast<C*>(pairs.more);
    const T* const from = static_cast<const T*>(source.raw_data());
    T* const to = static_cast<T*>(table.raw_data());
    if (columns < kNarrow) {
      clear();
      const unsigned tiles = pairs.size() / kTile;
      gpu::launch(op, tile_kernel<T, 1>, dim3((tiles + kWarps - 1) / kWarps), kThreads, 0, pairs.keys(),
                  pairs.places(), tiles, pairs.rows, from, columns, sums);
      gpu::launch(op, narrow_kernel<T>, gpu::blocks_for(op, s.count * columns, kThreads), kThreads, 0,
                  pairs.keys(), pairs.places(), pairs.size(), pairs.rows, from, columns, sums, to);
      return;
    }
    const auto sum = [&](auto kernel) { kernel(op, pairs, from, columns, sums, accumulate, to); };
    if constexpr (sizeof(T) < 8) {
      constexpr int kPack = gpu::Vector<T>::size;
      const bool packs = columns % kPack == 0 && gpu::is_aligned(from, 16) && gpu::is_aligned(to, 16);
      const std::int64_t loads = gpu::ceil_div(columns / kPack, 32);
      if (packs && loads == 1) return sum(sum_rows<T, kPack, 1>);
      if (packs && loads % 4 != 0 && loads % 3 == 0) return sum(sum_rows<T, kPack, 3>);
      if (packs) return sum(sum_rows<T, kPack, 4>);
    }
    sum(sum_rows<T, 1, 4>);
  };
  if (table.dtype() == DType::i64) return go(TypeTag<std::uint64_t>{});
  visit_floating(op, table.dtype(), go);
}

void set_cuda(IndexSite site, const Selection& s, std::int64_t columns, const Tensor& source,
              const Tensor& table) {
  if (s.count == 0) return;
  const SortedPairs pairs(site.op, &site, s, 0);
  const std::int64_t bytes = columns * static_cast<std::int64_t>(size_of(table.dtype()));
  if (bytes == 0 || table.numel() == 0) return;
  with_word(bytes, bytes, source.raw_data(), table.raw_data(), [&]<class Word>(TypeTag<Word>) {
    const std::int64_t words = bytes / static_cast<std::int64_t>(sizeof(Word));
    const int group = lanes_for(words);
    gpu::launch(site.op, set_kernel<Word>, gpu::blocks_for(site.op, s.count, kThreads / group), kThreads, 0,
                pairs.keys(), pairs.places(), pairs.size(), pairs.rows,
                static_cast<const Word*>(source.raw_data()), words, group,
                static_cast<Word*>(table.raw_data()));
  });
}

}  // namespace ct::scatter_impl

CT_FUNCTIONS(cuda, ScatterFunctions, scatters, scatter_impl::take_cuda, scatter_impl::add_cuda,
             scatter_impl::set_cuda)
