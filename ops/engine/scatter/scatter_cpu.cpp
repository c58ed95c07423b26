#include <algorithm>
#include <cstring>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/simd/copy.h>
#include <cotangent/core/simd/stream.h>
#include <cotangent/ops/engine/scatter/places_cpu.h>
#include <cotangent/ops/engine/scatter/scatter.h>

// take() copies rows. add() first lists, for every row of the table, the places that name it (a counting sort, in the
// order of the places); then every piece of a row is summed in cache and written once. set(), and add() of single elements, cut
// the table into a few parts, and the thread that writes one goes through all places in their order.

namespace ct::scatter_impl {
namespace {

constexpr std::int64_t kColumns = 256;  // columns summed at a time

// The places that name each row: those of row v are places[starts[v]] to places[starts[v + 1]].
struct Readers {
  Tensor starts_, places_;
  std::int64_t* starts;
  std::int64_t* places;

  Readers(const std::int64_t* row_of, std::int64_t n, std::int64_t rows)
      : starts_(Tensor::allocate({rows + 1}, DType::i64, cpu)),
        places_(Tensor::allocate({n}, DType::i64, cpu)),
        starts(starts_.data<std::int64_t>()),
        places(places_.data<std::int64_t>()) {
    std::fill_n(starts, rows + 1, 0);
    for (std::int64_t i = 0; i < n; ++i)
      if (row_of[i] >= 0) ++starts[row_of[i]];
    std::int64_t end = 0;
    for (std::int64_t v = 0; v <= rows; ++v) starts[v] = end += starts[v];
    // Backwards, so that each start arrives at its place and the order is kept.
    for (std::int64_t i = n - 1; i >= 0; --i)
      if (row_of[i] >= 0) places[--starts[row_of[i]]] = i;
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
  compute_t<T> sum[kColumns];
  std::fill_n(sum, n, compute_t<T>{});
  for (std::int64_t r = 0; r < readers; ++r) add_run(g + places[r] * columns, n, sum);
  if (accumulate) add_run(out, n, sum);
  if constexpr (std::is_same_v<T, compute_t<T>>)
    std::memcpy(out, sum, static_cast<std::size_t>(n) * sizeof(T));
  else
    simd::convert_run(sum, n, out);
}

template <class T>
void add_rows(const Readers& readers, std::int64_t rows, std::int64_t columns, const Tensor& source,
              const Tensor& table, bool accumulate) {
  const std::int64_t pieces = (columns + kColumns - 1) / kColumns;
  const std::int64_t together = std::max<std::int64_t>(1, kGrain / std::min(columns, kColumns));
  const T* from = static_cast<const T*>(source.raw_data());
  T* to = static_cast<T*>(table.raw_data());
  const bool any = source.numel() > 0;  // else there is no memory to count from
  parallel_for(chunk_count(rows, together) * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t first = item / pieces * together, last = std::min(rows, first + together);
      const std::int64_t column = item % pieces * kColumns, n = std::min(kColumns, columns - column);
      for (std::int64_t v = first; v < last; ++v)
        sum_piece(any ? from + column : from, columns, readers.places + readers.starts[v],
                  readers.starts[v + 1] - readers.starts[v], n, accumulate, to + v * columns + column);
    }
  });
}

// Rows of one element, which cost less to add than to list. 16 bits are summed apart, to be rounded once.
template <class T>
void add_elements(const std::int64_t* row_of, const Selection& s, const Tensor& source, const Tensor& table,
                  bool accumulate) {
  using C = compute_t<T>;
  constexpr bool kNarrow = !std::is_same_v<T, C>;
  const T* const from = static_cast<const T*>(source.raw_data());
  T* const to = static_cast<T*>(table.raw_data());
  const Tensor wide = kNarrow ? Tensor::allocate({s.rows}, DType::f32, cpu) : table;
  C* const sums = static_cast<C*>(wide.raw_data());
  if (!accumulate) std::fill_n(sums, s.rows, C{});
  if constexpr (kNarrow)
    if (accumulate) simd::convert_run(to, s.rows, sums);
  for_each_named(row_of, s, sizeof(C),
                 [=](std::int64_t q, std::int64_t v) { sums[v] += static_cast<C>(from[q]); });
  if constexpr (kNarrow) simd::convert_run(sums, s.rows, to);
}

// Calls f(copy), where copy(to, from) copies a row of so many bytes.
template <class F>
void with_row_copy(std::int64_t bytes, F&& f) {
  const auto word = [&]<class Word>(TypeTag<Word>) {
    f([](char* to, const char* from) { std::memcpy(to, from, sizeof(Word)); });
  };
  if (bytes == 1) return word(TypeTag<std::uint8_t>{});
  if (bytes == 2) return word(TypeTag<std::uint16_t>{});
  if (bytes == 4) return word(TypeTag<std::uint32_t>{});
  if (bytes == 8) return word(TypeTag<std::uint64_t>{});
  f([n = static_cast<std::size_t>(bytes)](char* to, const char* from) {
    if (n > 0) simd::copy(to, from, n);
  });
}

}  // namespace

void take_cpu(IndexSite site, const Selection& s, std::int64_t columns, const Tensor& table,
              std::int64_t stride, const Tensor& y) {
  const auto element = static_cast<std::int64_t>(size_of(y.dtype()));
  const std::int64_t bytes = columns * element;
  const std::int64_t step = bytes > 0 ? stride * element : 0;  // without columns there is no memory
  const char* const from = static_cast<const char*>(table.raw_data());
  char* const to = static_cast<char*>(y.raw_data());
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, columns));
  with_row_copy(bytes, [&](auto copy) {
    parallel_for(s.count, grain, [&](std::int64_t begin, std::int64_t end) {
      for_each_place(s, begin, end,
                     [=, limit = s.limit, axis_step = s.axis_step, &site](std::int64_t q, std::int64_t base,
                                                                          std::int64_t i) {
                       if (i < 0 || i >= limit) throw_index_error(site, i, limit);
                       copy(to + q * bytes, from + (base + i * axis_step) * step);
                     });
    });
  });
}

void add_cpu(const char* op, const IndexSite* site, const Selection& s, std::int64_t columns,
             const Tensor& source, const Tensor& table, bool accumulate) {
  const Tensor list = rows_of_places(site, s);
  const std::int64_t* const row_of = list.data<std::int64_t>();
  if (table.numel() == 0) return;
  const auto go = [&]<class T>(TypeTag<T>) {
    if (columns == 1) return add_elements<T>(row_of, s, source, table, accumulate);
    add_rows<T>(Readers(row_of, s.count, s.rows), s.rows, columns, source, table, accumulate);
  };
  if (table.dtype() == DType::i64) return go(TypeTag<std::uint64_t>{});  // which wrap
  visit_floating(op, table.dtype(), go);
}

void set_cpu(IndexSite site, const Selection& s, std::int64_t columns, const Tensor& source,
             const Tensor& table) {
  const Tensor list = rows_of_places(&site, s);
  const std::int64_t* const row_of = list.data<std::int64_t>();
  const std::int64_t bytes = columns * static_cast<std::int64_t>(size_of(table.dtype()));
  const char* const from = static_cast<const char*>(source.raw_data());
  char* const to = static_cast<char*>(table.raw_data());
  with_row_copy(bytes, [&](auto copy) {
    for_each_named(row_of, s, bytes,
                   [=](std::int64_t q, std::int64_t row) { copy(to + row * bytes, from + q * bytes); });
  });
}

}  // namespace ct::scatter_impl

CT_FUNCTIONS(cpu, ScatterFunctions, scatters, scatter_impl::take_cpu, scatter_impl::add_cpu,
             scatter_impl::set_cpu)
