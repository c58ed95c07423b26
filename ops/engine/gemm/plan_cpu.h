#pragma once

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/engine/gemm/dots_cpu.h>
#include <cotangent/ops/engine/gemm/gemm_cpu.h>
#include <cotangent/ops/engine/gemm/tiles_cpu.h>

// Plan of a product, made from its sizes and strides, and the machine's cache: not from the number of threads,
// nor from what the machine is doing. The cache decides nothing that bits depend on.

namespace ct::gemm {

using std::int64_t;

inline int64_t round_up(int64_t x, int64_t step) { return (x + step - 1) / step * step; }

// Sizes measured best on machines with 32 to 48 KiB of first-level and 1 to 2 MiB of second-level cache. A sliver
// of V, k_block deep, is 64 KiB: it comes from the second level, which is fast enough, and C is visited less
// often.
inline constexpr int64_t kBlockBytes = 2048;  // k_block, in bytes of one column
inline constexpr int64_t kMostRows = 192;     // of a task, where half of the second-level cache holds them
inline constexpr int64_t kFewestRows = 128;   // of one of many tasks; of pairs half
inline constexpr int64_t kWorthPacking = 48;  // rows that make packing for the cache pay; columns: twice
inline constexpr double kTaskWork = 1 << 19;  // worth a task, in multiply-adds: 5 to 10 microseconds
inline constexpr double kMostTasks = 16;      // beyond that, tasks are made for the cache's sake only

/// Operands up to this size stay in the second-level cache: its size, in bytes. 1 MiB where the machine does not say.
inline int64_t near_bytes() {
  static const int64_t size = [] {
    const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return l2 > 0 ? int64_t{l2} : int64_t{1} << 20;
  }();
  return size;
}

/// Whether so many cache lines, `stride` bytes apart, drive one another out of a first-level cache of 64 sets of 8.
inline bool crowded(int64_t stride, int64_t lines) {
  const int64_t apart = stride % 64 == 0 ? stride / 64 : 1;  // else they are spread
  return lines > 8 * 64 / std::gcd(std::max<int64_t>(apart, 1), int64_t{64});
}

/// Time of a product, in multiply-adds: loading an element from the second-level cache, or storing it there, takes as long
/// as six. Where one of the sizes is 1 or 2, most of the time goes there.
inline double work_of(int64_t m, int64_t n, int64_t k) {
  const auto a = static_cast<double>(m), b = static_cast<double>(n),
             c = static_cast<double>(std::max<int64_t>(k, 1));
  return a * b * c + 6 * (a * b + b * c + a * c);
}

/// Number of items of such work that are worth a task.
inline int64_t grain_of(double work) {
  return static_cast<int64_t>(std::clamp(kTaskWork / std::max(work, 1.0), 1.0, 1e9));
}

// Layout of packed operands: elements, or pairs of them along k, each in the place of a T; `deep`, a power of two that the
// packed k is rounded up to a multiple of; and the most rows of a tile.
struct Packing {
  int pairs = 0;
  int64_t deep = 1, rows = kRows;
  int64_t packed(int64_t k) const { return (((k + pairs) >> pairs) + deep - 1) & -deep; }
};

// The product in the roles of the kernels (see engine/gemm/tiles_cpu.h), with everything that was decided about
// it. Normally R is A and V is B. Swapped, C^T = B^T A^T is computed: R is B^T, V is A^T.
struct Plan {
  int64_t rows, cols, k;  // R is [rows, k], V is [k, cols]
  int64_t r_row, r_k, v_k, v_col, c_row;
  bool dots;  // scalar products instead: see run_dots
  bool swapped;
  bool copy_r, copy_v;  // pack them, or read them where they are
  bool by_rows;         // the kernels find R row by row, or column by column
  Packing packing;
  int64_t rows_task, cols_task, row_tasks, col_tasks, k_block;
  double work;  // of one item, two multiply-adds as one in pairs
  bool prefetch;

  int64_t packed(int64_t k) const { return packing.packed(k); }
  int64_t tasks() const { return row_tasks * col_tasks; }
};

// Shapes are chosen, and k is cut, by sizes and strides alone.
// `convert`: operands are not of type T. The kernels take a packed pair in the time of one element.
template <class T>
Plan make_plan(Gemm g, bool convert, Packing packing, bool scale, int64_t near = near_bytes()) {
  const bool pairs = packing.pairs != 0;
  using V = simd::Vector<T>;
  constexpr int64_t w = V::kSize, sliver = 2 * w;
  // Where a size is 1 its stride does not matter: take the one that suits.
  if (g.m == 1) g.a_row = g.a_col == 1 ? g.k : 1;
  if (g.k == 1) g.a_col = g.a_row == 1 ? g.m : 1, g.b_row = g.b_col == 1 ? g.n : 1;
  if (g.n == 1) g.b_col = 1;

  // Estimates in cycles: products, transpositions of V, and of C.
  const double m = static_cast<double>(g.m), n = static_cast<double>(g.n), k = static_cast<double>(g.k);
  const double steps = pairs ? k / 2 : k;
  const auto pack_cost = [pairs](int64_t along_k, int64_t across) {
    return across == 1 || pairs ? 0.0 : along_k == 1 ? 0.35 : 1.5;  // pairs are packed alike in either role
  };
  const auto vecs = [](int64_t x) { return static_cast<double>(chunk_count(x, w)); };
  // A single vector is held up by the loads that come with it.
  const auto tiles = [&](int64_t x) { return x <= w ? 0.68 : vecs(x) / 2; };
  const double normal = m * tiles(g.n) * steps + pack_cost(g.b_row, g.b_col) * n * k;
  const double swapped = n * tiles(g.m) * steps + pack_cost(g.a_col, g.a_row) * m * k + m * n;

  // Scalar products; 30 for the sums over the lanes of a tile.
  const double dots = m * n * 0.55 * vecs(g.k) +
                      30 * static_cast<double>(chunk_count(g.m, kTall<T>) * chunk_count(g.n, kShort<T>));
  const double copy_b = g.b_row == 1 ? 0.0 : 0.5 * n * k;
  const bool along_k = !convert && g.a_col == 1 && (g.b_row == 1 || g.b_col == 1);

  Plan plan{};
  plan.dots = along_k && dots + copy_b < std::min(normal, swapped);
  plan.swapped = swapped < normal;
  plan.k = g.k;
  plan.packing = packing;
  plan.c_row = g.c_row;
  if (plan.swapped) {
    plan.rows = g.n, plan.cols = g.m;
    plan.r_row = g.b_col, plan.r_k = g.b_row, plan.v_k = g.a_col, plan.v_col = g.a_row;
  } else {
    plan.rows = g.m, plan.cols = g.n;
    plan.r_row = g.a_row, plan.r_k = g.a_col, plan.v_k = g.b_row, plan.v_col = g.b_col;
  }
  // Rows or columns that lie a multiple of a page apart all want the same few places of the first-level
  // cache.
  const auto hostile = [](int64_t stride) { return stride * static_cast<int64_t>(sizeof(T)) % 4096 == 0; };
  const auto bytes = [](int64_t x, int64_t y) { return x * y * static_cast<int64_t>(sizeof(T)); };
  plan.by_rows = !pairs && (plan.r_k == 1 || plan.r_row != 1);
  const int64_t r_stride = plan.by_rows ? plan.r_row : plan.r_k;
  // Tiles of vectors of less than a line come back to each line of V, and of R's columns, so often that these are to stay in
  // the first level: 0.7 to 0.85 of the speed otherwise. With AVX-512 packing costs what it gains.
  const int64_t deep = std::min(plan.k, kBlockBytes / static_cast<int64_t>(sizeof(T)));
  const auto leaves = [&](int64_t stride) { return sizeof(V) < 64 && crowded(bytes(stride, 1), deep); };
  const bool leaves_r = plan.cols >= 2 * kWorthPacking && !plan.by_rows && leaves(plan.r_k);
  const bool leaves_v = plan.rows >= kWorthPacking && leaves(plan.v_k);
  const bool far_r = leaves_r || (plan.cols >= 256 && (hostile(r_stride) || bytes(plan.rows, plan.k) > near));
  const bool far_v = leaves_v || (plan.rows >= 96 && (hostile(plan.v_k) || bytes(plan.cols, plan.k) > near));
  // alpha is multiplied into R, whichever operand that is.
  plan.copy_r = convert || scale || (plan.r_k != 1 && plan.r_row != 1) || far_r;
  plan.copy_v = convert || plan.v_col != 1 || far_v;
  // (In a short sum the loops that prefetch end before the machine has foreseen it.)
  plan.prefetch = plan.k >= 128 && bytes(plan.rows, plan.cols) + bytes(plan.k, plan.cols) > near;

  // Divisions are expensive beside the smallest products: those are not cut at all.
  const int64_t k_most = kBlockBytes / static_cast<int64_t>(sizeof(T)) << pairs;
  plan.k_block = plan.k <= k_most
                     ? std::max<int64_t>(plan.k, 1)
                     : round_up(chunk_count(plan.k, chunk_count(plan.k, k_most)), pairs ? 32 : 4);
  plan.work = work_of(g.m, g.n, (g.k + pairs) >> pairs);
  plan.rows_task = round_up(plan.rows, packing.rows), plan.row_tasks = 1;
  plan.cols_task = round_up(plan.cols, sliver), plan.col_tasks = 1;
  if (plan.work >= 2 * kTaskWork) {
    // Rows are cut before columns: packed rows are then packed once.
    const auto wanted = static_cast<int64_t>(std::min(plan.work / kTaskWork, kMostTasks));
    // Columns of R each task packs for itself: few rows then, and many columns, unless V is too large to be read again.
    const int64_t fewest =
        leaves_r && bytes(plan.cols, plan.k) <= near ? kFewestRows / 4 : kFewestRows >> pairs;
    const int64_t row_parts = std::clamp<int64_t>(plan.rows / fewest, 1, wanted);
    const int64_t most =
        std::clamp<int64_t>(near / 2 / kBlockBytes, packing.rows, kMostRows) / packing.rows * packing.rows;
    plan.rows_task = std::min(most, round_up(chunk_count(plan.rows, row_parts), packing.rows));
    plan.row_tasks = chunk_count(plan.rows, plan.rows_task);
    int64_t col_parts = chunk_count(wanted, plan.row_tasks);
    if (leaves_r) col_parts = std::min(col_parts, plan.cols / (2 * kWorthPacking));
    plan.cols_task = round_up(chunk_count(plan.cols, col_parts), sliver);
    plan.col_tasks = chunk_count(plan.cols, plan.cols_task);
  }
  return plan;
}

}  // namespace ct::gemm
