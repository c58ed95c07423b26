#pragma once

#include <cstdint>
#include <initializer_list>

#include <cotangent/core/device/index_error.h>
#include <cotangent/core/device/kernel_tables.h>
#include <cotangent/core/op/integers_internal.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/engine/walk/axes.h>

// Rows that a list of indices names: taken from a table, added into one, or put in their place. A row is `columns`
// elements without gaps, one of them where single elements are named. Every element of the result has one writer,
// which goes through its places in their order.

namespace ct::scatter_impl {

/// Rows of a table of `rows` rows, one for each place q < count: the places are those of a layout of up to kMaxRank axes,
/// in row-major order, and place q names the row base(q) + axis_step index(q).
struct Selection {
  Integers index;
  std::int64_t count = 0;
  std::int64_t rows = 0;
  std::int64_t limit = 0;      // an index lies in [0, limit)
  std::int64_t axis_step = 1;  // from the row of an index to that of the next
  std::int64_t skip = -1;      // an index that add() leaves out
  int rank = 0;
  std::int64_t size[kMaxRank];        // of the places, the outermost axis first
  std::int64_t row_step[kMaxRank];    // of base
  std::int64_t index_step[kMaxRank];  // of the index's number in the list

  Selection() = default;
  /// Place q names the row index[q].
  Selection(const Tensor& list, std::int64_t table_rows)
      : index(list), count(list.numel()), rows(table_rows), limit(table_rows) {
    append_all({{count, 0, 1}});
  }
  /// Axes of the places: size, row_step, index_step.
  struct Axis {
    std::int64_t size, row_step, index_step;
  };
  void append_all(std::initializer_list<Axis> list) {
    append_all(list.begin(), static_cast<int>(list.size()));
  }
  void append_all(const Axis* list, int n) {
    Axes<2> axes;
    for (int i = 0; i < n; ++i) axes.append(list[i].size, {list[i].row_step, list[i].index_step});
    rank = axes.rank;
    for (int i = 0; i < rank; ++i)
      size[i] = axes.size[i], row_step[i] = axes.stride[i][0], index_step[i] = axes.stride[i][1];
  }

  /// The same where every row is cut into so many rows.
  Selection cut(std::int64_t parts) const {
    Axis axes[kMaxRank];
    for (int i = 0; i < rank; ++i) axes[i] = {size[i], row_step[i] * parts, index_step[i]};
    axes[rank] = {parts, 1, 0};
    Selection s = *this;
    s.append_all(axes, rank + 1);
    s.count *= parts, s.rows *= parts, s.axis_step *= parts;
    return s;
  }

  struct Place {
    std::int64_t base, index;
  };
  CT_HD Place place(std::int64_t q) const {
    std::int64_t base = 0, at = 0;
    for (int k = rank - 1; k >= 0; --k) {
      std::int64_t coordinate = q;
      if (k > 0) {
        // A GPU divides numbers of 32 bits several times as fast.
        const bool small = (static_cast<std::uint64_t>(q | size[k]) >> 32) == 0;
        q = small ? static_cast<std::uint32_t>(q) / static_cast<std::uint32_t>(size[k]) : q / size[k];
        coordinate -= q * size[k];
      }
      base += coordinate * row_step[k];
      at += coordinate * index_step[k];
    }
    return {base, index[at]};
  }
  CT_HD bool in_range(std::int64_t i) const { return i >= 0 && i < limit; }
};

/// y[q, :] = table[row(q), :]. Rows of the table, of y's dtype, are `stride` elements apart; y is [count, columns] without
/// gaps. An index out of range throws IndexError for `site`; on CUDA it is reported and its row is zeros.
void take(IndexSite site, const Selection& rows, std::int64_t columns, const Tensor& table,
          std::int64_t stride, const Tensor& y);

/// table[v, :] = sum_q [row(q) = v] source[q, :], with `accumulate` added to what is there; both without gaps, of one
/// dtype, and apart in memory. Places whose index is `skip` are left out. An index out of range throws IndexError for
/// `site`, before anything is written; on CUDA it is reported and left out. Without a site it is left out.
/// Floats of 16 bits are added in f32 and rounded once; integers wrap.
void add(const char* op, const IndexSite* site, const Selection& rows, std::int64_t columns,
         const Tensor& source, const Tensor& table, bool accumulate);

/// table[row(q), :] = source[q, :], the last q where several name a row; otherwise as add().
void set(IndexSite site, const Selection& rows, std::int64_t columns, const Tensor& source,
         const Tensor& table);

/// The halves of the above per device. add's are for floats and i64.
void take_cpu(IndexSite site, const Selection& rows, std::int64_t columns, const Tensor& table,
              std::int64_t stride, const Tensor& y);
void take_cuda(IndexSite site, const Selection& rows, std::int64_t columns, const Tensor& table,
               std::int64_t stride, const Tensor& y);
void add_cpu(const char* op, const IndexSite* site, const Selection& rows, std::int64_t columns,
             const Tensor& source, const Tensor& table, bool accumulate);
void add_cuda(const char* op, const IndexSite* site, const Selection& rows, std::int64_t columns,
              const Tensor& source, const Tensor& table, bool accumulate);
void set_cpu(IndexSite site, const Selection& rows, std::int64_t columns, const Tensor& source,
             const Tensor& table);
void set_cuda(IndexSite site, const Selection& rows, std::int64_t columns, const Tensor& source,
              const Tensor& table);

}  // namespace ct::scatter_impl

namespace ct {
struct ScatterFunctions {
  decltype(&scatter_impl::take_cpu) take;
  decltype(&scatter_impl::add_cpu) add;
  decltype(&scatter_impl::set_cpu) set;
};
CT_FUNCTION_TABLES(ScatterFunctions, scatters)
}  // namespace ct
