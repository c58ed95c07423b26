#pragma once

#include <algorithm>
#include <cstdint>

#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/engine/scatter/scatter.h>

// Places walked on the CPU: in their order, and those of one row by one thread.

namespace ct::scatter_impl {

inline constexpr std::int64_t kGrain = 32768;  // elements per chunk

/// Calls f(q, base, index) for the places from begin to end. What f needs it has by value: to the compiler every element that is
/// written may be what is referred to; and inlined, for the same reason.
template <class F>
[[gnu::always_inline]] inline void for_each_place(const Selection& s, std::int64_t begin, std::int64_t end,
                                                  F&& f) {
  std::int64_t at[kMaxRank], base = 0, number = 0;
  for (std::int64_t k = s.rank - 1, rest = begin; k >= 0; rest /= s.size[k--]) {
    at[k] = rest % s.size[k];
    base += at[k] * s.row_step[k];
    number += at[k] * s.index_step[k];
  }
  if (s.rank == 0) {  // one place, if any
    if (begin < end) f(begin, base, s.index[number]);
    return;
  }
  const int inner = s.rank - 1;
  const std::int64_t row_step = s.row_step[inner], index_step = s.index_step[inner];
  for (std::int64_t q = begin; q < end;) {
    const std::int64_t n = std::min(end - q, s.size[inner] - at[inner]);
    const auto run = [&](const auto* indices) {
      for (std::int64_t j = 0; j < n; ++j) f(q + j, base + j * row_step, indices[number + j * index_step]);
    };
    s.index.wide ? run(static_cast<const std::int64_t*>(s.index.data))
                 : run(static_cast<const std::int32_t*>(s.index.data));
    q += n;
    if (q == end) return;
    base += n * row_step, number += n * index_step, at[inner] += n;
    for (int k = inner; at[k] == s.size[k]; --k) {
      base += s.row_step[k - 1] - at[k] * s.row_step[k];
      number += s.index_step[k - 1] - at[k] * s.index_step[k];
      at[k] = 0, ++at[k - 1];
    }
  }
}

/// The row of each place, -1 for those that are left out.
inline Tensor rows_of_places(const IndexSite* site, const Selection& s) {
  Tensor list = Tensor::allocate({s.count}, DType::i64, cpu);
  std::int64_t* const rows = list.data<std::int64_t>();
  parallel_for(s.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for_each_place(s, begin, end,
                   [=, limit = s.limit, skip = s.skip, axis_step = s.axis_step](
                       std::int64_t q, std::int64_t base, std::int64_t i) {
                     const bool good = i >= 0 && i < limit;
                     if (!good && site) throw_index_error(*site, i, limit);
                     rows[q] = good && i != skip ? base + i * axis_step : -1;
                   });
  });
  return list;
}

/// Calls f(q, row) for the places that name a row, in their order, a few parts of the table at a time. Each part goes
/// through all places: more of them pay where f takes long.
template <class F>
void for_each_named(const std::int64_t* row_of, const Selection& s, std::int64_t row_bytes, F&& f,
                    std::int64_t parts = 4) {
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain * 16 / std::max<std::int64_t>(1, row_bytes));
  parallel_for(s.rows, std::max(grain, (s.rows + parts - 1) / parts),
               [row_of, f, count = s.count](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t q = 0; q < count; ++q)
                   if (const std::int64_t row = row_of[q]; row >= begin && row < end) f(q, row);
               });
}

}  // namespace ct::scatter_impl
