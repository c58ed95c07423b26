#include <algorithm>
#include <bit>

#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/workspace.h>
#include <cotangent/ops/engine/scatter/pair_sort_cuda.h>
#include <cotangent/ops/sorting/topk_internal.h>
#include <cotangent/ops/engine/rows/element_key.cuh>

// All rows are one list of pairs (word of the key, place in the list), which is sorted by the words of the key from the
// last to the first and then by the number of the row. The sort keeps the order of equal ones, hence the rows are sorted
// each for itself, and equal elements stay in their order.

namespace ct::sorting {
namespace {

constexpr int kSortThreads = 256;
constexpr std::int64_t kMost = 0x7fffffff - 1;  // pairs at once

// `count` elements of whole rows from `first_row` on.
struct Part {
  const void* x;
  DType dtype;
  Rows rows;
  long long first_row;
  unsigned count;
  bool descending;

  __device__ long long element(unsigned place) const {
    const unsigned n = static_cast<unsigned>(rows.n);
    return rows.start(first_row + place / n, rows.n) + place % n * rows.inner;
  }
};

// Word `word` of the key of each place, of the lowest the first; without `places` they are numbered.
__global__ void __launch_bounds__(kSortThreads)
    key_kernel(const __grid_constant__ Part part, int word, bool number, unsigned* __restrict__ keys,
               unsigned* __restrict__ places) {
  const unsigned i = blockIdx.x * kSortThreads + threadIdx.x;
  if (i >= part.count) return;
  const unsigned place = number ? i : places[i];
  const unsigned long long key = rows::element_key(part.x, part.dtype, part.element(place));
  keys[i] = static_cast<unsigned>((part.descending ? ~key : key) >> 32 * word);
  if (number) places[i] = i;
}

__global__ void __launch_bounds__(kSortThreads)
    row_kernel(unsigned count, unsigned n, const unsigned* __restrict__ places, unsigned* __restrict__ keys) {
  const unsigned i = blockIdx.x * kSortThreads + threadIdx.x;
  if (i < count) keys[i] = places[i] / n;
}

// The first k places of each row become positions and values. With `keys`, of f32, what their keys tell is not read from
// where it lies, which is anywhere.
__global__ void __launch_bounds__(kSortThreads)
    finish_kernel(const __grid_constant__ Part part, unsigned k, const unsigned* __restrict__ keys,
                  const unsigned* __restrict__ places, void* values, long long* __restrict__ indices) {
  const unsigned e = blockIdx.x * kSortThreads + threadIdx.x, n = static_cast<unsigned>(part.rows.n);
  if (e >= part.count / n * k) return;
  const unsigned row = e / k, j = e % k, i = row * n + j;
  const unsigned place = places[i];
  const long long to = part.rows.start(part.first_row + row, k) + j * part.rows.inner;
  indices[to] = place - row * n;
  if (keys) {
    const unsigned key = part.descending ? ~keys[i] : keys[i];
    if (key != order_key(0.0f) && key != ~0u) {
      static_cast<float*>(values)[to] = from_order_key<float>(key);
      return;
    }
  }
  const long long from = part.element(place);
  const auto copy = [&]<class Word>(TypeTag<Word>) {
    static_cast<Word*>(values)[to] = static_cast<const Word*>(part.x)[from];
  };
  switch (part.dtype) {
    case DType::f64:
    case DType::i64: return copy(TypeTag<unsigned long long>{});
    case DType::f32:
    case DType::i32: return copy(TypeTag<unsigned>{});
    case DType::f16:
    case DType::bf16: return copy(TypeTag<unsigned short>{});
    default: return copy(TypeTag<unsigned char>{});
  }
}

}  // namespace

void sort_cuda(const Forward& f, const Choice& rows, bool descending) {
  const char* const op = f.op.name;
  const Tensor& x = f.in(0);
  CT_CHECK(rows.n <= kMost, ShapeError, op, "x is ", describe(x),
           "; on a GPU rows that are sorted have at most ", kMost, " elements: split them");
  const int bits = rows::key_bits(x.dtype());
  const std::int64_t together = std::min(rows.rows, kMost / rows.n);
  for (std::int64_t first = 0; first < rows.rows; first += together) {
    const std::int64_t some = std::min(together, rows.rows - first);
    const Part part{x.raw_data(), x.dtype(), rows, first, static_cast<unsigned>(some * rows.n), descending};
    scatter_impl::PairSort pairs(op, part.count);
    const gpu::Workspace memory(pairs.bytes());
    pairs.place(memory.data());
    const unsigned blocks = gpu::blocks_for(op, part.count, kSortThreads);
    for (int word = 0; 32 * word < bits; ++word) {
      gpu::launch(op, key_kernel, blocks, kSortThreads, 0, part, word, word == 0, pairs.keys(),
                  pairs.places());
      pairs.sort(std::min(32, bits));
    }
    if (some > 1) {
      gpu::launch(op, row_kernel, blocks, kSortThreads, 0, part.count, rows.n, pairs.places(), pairs.keys());
      pairs.sort(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(some - 1))));
    }
    gpu::launch(op, finish_kernel, gpu::blocks_for(op, some * rows.k, kSortThreads), kSortThreads, 0, part,
                rows.k, some == 1 && x.dtype() == DType::f32 ? pairs.keys() : nullptr, pairs.places(),
                f.out().raw_data(), static_cast<long long*>(f.out(1).raw_data()));
  }
}

}  // namespace ct::sorting
