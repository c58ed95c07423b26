#include <algorithm>
#include <cstring>

#include <cotangent/core/index_error.h>
#include <cotangent/core/parallel.h>
#include <cotangent/core/simd/vector.h>
#include <cotangent/ops/embedding/embedding_internal.h>
#include <cotangent/ops/engine/walk/copy.h>

// Forward copies rows. Backward first lists, for every row of the table, the places that read it (a counting
// sort, in the order of the places); then every piece of a row is summed in cache and written once.

namespace ct::embedding_kernels {
namespace {

constexpr std::int64_t kGrain = 32768;  // elements per chunk
constexpr std::int64_t kColumns = 256;  // columns summed at a time

// The places that read each row: those of row v are places[starts[v]] to places[starts[v + 1]].
struct Readers {
  Tensor starts_, places_;
  std::int64_t* starts;
  std::int64_t* places;

  Readers(const Indices& indices, std::int64_t n, std::int64_t rows, std::int64_t padding)
      : starts_(Tensor::allocate({rows + 1}, DType::i64, cpu)),
        places_(Tensor::allocate({n}, DType::i64, cpu)),
        starts(starts_.data<std::int64_t>()),
        places(places_.data<std::int64_t>()) {
    std::fill_n(starts, rows + 1, 0);
    const auto counts = [&](std::int64_t row) { return row != padding && row >= 0 && row < rows; };
    for (std::int64_t i = 0; i < n; ++i)
      if (const std::int64_t row = indices[i]; counts(row)) ++starts[row];
    std::int64_t end = 0;
    for (std::int64_t v = 0; v <= rows; ++v) starts[v] = end += starts[v];
    // From the back, so that each start arrives at its place and the order is kept.
    for (std::int64_t i = n - 1; i >= 0; --i)
      if (const std::int64_t row = indices[i]; counts(row)) places[--starts[row]] = i;
  }
};

template <class T>
void add_run(const T* __restrict from, std::int64_t n, compute_t<T>* __restrict to) {
  if constexpr (std::is_same_v<T, Half>) {
    float wide[kColumns];
    simd::convert_run(from, n, wide);
    for (std::int64_t j = 0; j < n; ++j) to[j] += wide[j];
  } else {
    for (std::int64_t j = 0; j < n; ++j) to[j] += static_cast<compute_t<T>>(from[j]);
  }
}

// n columns of one row: the sum over its readers.
template <class T>
void sum_piece(const T* g, std::int64_t columns, const std::int64_t* places, std::int64_t readers,
               std::int64_t n, bool accumulate, T* out) {
  if (readers == 0) {
    if (!accumulate) std::fill_n(out, n, T{});
    return;
  }
  if (readers == 1 && !accumulate) {
    std::memcpy(out, g + places[0] * columns, static_cast<std::size_t>(n) * sizeof(T));
    return;
  }
  compute_t<T> sum[kColumns] = {};
  for (std::int64_t r = 0; r < readers; ++r) add_run(g + places[r] * columns, n, sum);
  if (accumulate) add_run(out, n, sum);
  if constexpr (std::is_same_v<T, compute_t<T>>)
    std::memcpy(out, sum, static_cast<std::size_t>(n) * sizeof(T));
  else
    simd::convert_run(sum, n, out);
}

}  // namespace

void forward_cpu(const Forward& f) {
  const Tensor& y = f.out();
  const Tensor& indices = f.in(1);
  const Tensor& weight = f.in(0);
  const std::int64_t rows = weight.size(0), columns = weight.size(1), stride = weight.stride(0);
  const auto element = static_cast<std::int64_t>(size_of(y.dtype()));
  const Indices index(indices);
  const char* from = static_cast<const char*>(weight.raw_data());
  char* to = static_cast<char*>(y.raw_data());
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, columns));
  parallel_for(indices.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = index[i];
      if (row < 0 || row >= rows) throw_index_error("embedding", IndexKind::token, row, rows);
      if (columns > 0)
        std::memcpy(to + i * columns * element, from + row * stride * element,
                    static_cast<std::size_t>(columns * element));
    }
  });
}

void backward_cpu(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor& dw = b.grad_in(0);
  if (dw.numel() == 0) return;
  const bool accumulate = b.accumulate(0);
  const Tensor &indices = b.in(1), &g = b.grad();
  const std::int64_t rows = dw.size(0), columns = dw.size(1);
  const Readers readers(Indices(indices), indices.numel(), rows, b.attrs<Attrs>().padding_row(rows));
  const std::int64_t pieces = (columns + kColumns - 1) / kColumns;
  const std::int64_t together = std::max<std::int64_t>(1, kGrain / std::min(columns, kColumns));
  visit_fast("embedding", dw.dtype(), [&]<class T>(TypeTag<T>) {
    const T* from = static_cast<const T*>(g.raw_data());
    T* to = static_cast<T*>(dw.raw_data());
    parallel_for(chunk_count(rows, together) * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t first = item / pieces * together, last = std::min(rows, first + together);
        const std::int64_t column = item % pieces * kColumns, n = std::min(kColumns, columns - column);
        for (std::int64_t v = first; v < last; ++v)
          sum_piece(from + column, columns, readers.places + readers.starts[v],
                    readers.starts[v + 1] - readers.starts[v], n, accumulate, to + v * columns + column);
      }
    });
  });
}

}  // namespace ct::embedding_kernels

CT_KERNELS(cpu, embedding, {"embedding", embedding_kernels::forward_cpu, embedding_kernels::backward_cpu})
