#include <cotangent/ops/engine/gemm/gemm_cpu.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include <cotangent/core/device/parallel.h>

#include <cotangent/core/memory/scratch_internal.h>
#include <cotangent/ops/engine/gemm/amx_cpu.h>
#include <cotangent/ops/engine/gemm/dots_cpu.h>
#include <cotangent/ops/engine/gemm/elements_cpu.h>
#include <cotangent/ops/engine/gemm/integers_cpu.h>
#include <cotangent/ops/engine/gemm/pack_cpu.h>
#include <cotangent/ops/engine/gemm/pairs_cpu.h>
#include <cotangent/ops/engine/gemm/plan_cpu.h>
#include <cotangent/ops/engine/gemm/tiles_cpu.h>

// Forms of a product. They are those of Goto and van de Geijn ("Anatomy of high-performance
// matrix multiplication", ACM TOMS 34, 2008), with what measurements added.
//
//  * Tiles of C, 12 rows by two vectors with AVX-512, are summed in registers (tiles_cpu.h). Only one
//    operand, V, is read as vectors; of the other one, R, single elements are broadcast, from rows or from
//    columns alike. So usually nothing has to be packed: not for A B, not for A^T B.
//  * For A B^T, where V would have to be transposed, either B is packed or, if that is less work, C^T is
//    computed with A in the place of V, and transposed on its way to C ("swapped").
//  * Thin results of operands that are contiguous along k are scalar products (dots_cpu.h).
//  * Operands that do not fit into the second-level cache, or whose rows are a multiple of a page apart, are
//    packed: V by all threads together, before, or by each for itself; R by each task, block by block of k.
//    With vectors of less than a line so are V, and R by columns, whose lines meet in a few places of the first
//    level. While a tile is summed, the next tile of C and a share of the next vectors are prefetched.
//
// C is cut into tasks by its shape alone, and k is never cut among threads, so results have the same bits for
// any number of threads.

namespace ct {
namespace {

using detail::scratch;
using gemm::Elements;
using gemm::kElements;
using gemm::kTaskWork;
using gemm::make_plan;
using gemm::Operands;
using gemm::Plan;
using gemm::round_up;
using gemm::RowTiles;
using gemm::TileArgs;
using gemm::work_of;
using std::int64_t;

// --- one task ----------------------------------------------------------------------------------------

// Computes rows [row0, row0 + rows) and columns [col0, col0 + cols) of C, over all of k. Per block of k the
// rows of R are packed, if need be, into the second-level cache; each sliver of V, two vectors wide, then
// meets all.
template <class T>
void run_task(const Plan& plan, const Operands<T>& op, const T* v_packed, int64_t row0, int64_t rows,
              int64_t col0, int64_t cols) {
  constexpr int64_t w = simd::Vector<T>::kSize, sliver = 2 * w;
  const Elements<T>& elements = op.elements;

  // Sums live in C itself where they fit there. They begin with what is in `start`, or with 0.
  const bool apart = elements.round || plan.swapped;
  T* sums;
  int64_t sums_ld;
  const T* start = nullptr;
  int64_t start_row = 0;
  if (apart) {
    sums_ld = round_up(cols, w);
    sums = scratch<T>(2, rows * sums_ld);
    if (op.beta != 0 || op.bias != nullptr) {
      elements.begin_sums(plan, op, row0, rows, col0, cols, sums, sums_ld);
      start = sums, start_row = sums_ld;
    }
  } else {
    sums_ld = plan.c_row;
    sums = static_cast<T*>(op.c) + row0 * plan.c_row + col0;
    if (op.beta != 0) {
      if (op.beta != 1)
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < cols; ++j) sums[i * sums_ld + j] *= op.beta;
      start = sums, start_row = sums_ld;
    } else if (op.bias != nullptr) {
      start = static_cast<const T*>(op.bias) + col0;
    }
  }

  const RowTiles tiles(rows, plan.packing.rows);
  const int64_t depth = plan.packed(std::min(plan.k, plan.k_block));
  // Packed by rows, an odd number of cache lines apart.
  const int64_t r_ld = plan.by_rows ? round_up(depth, 32) + 16 : plan.packing.rows;
  const int64_t r_tile = plan.by_rows ? gemm::kRows * r_ld : depth * r_ld + w;  // w more: see pack_columns
  T* const r_packed = plan.copy_r ? scratch<T>(0, tiles.count * r_tile) : nullptr;
  const int64_t v_cols = round_up(plan.cols, sliver);

  for (int64_t p0 = 0; p0 == 0 || p0 < plan.k; p0 += plan.k_block) {
    TileArgs<T> args;
    const int64_t k = std::min(plan.k_block, plan.k - p0);
    args.k = plan.packed(k);
    args.start_stride = start_row;
    args.c_stride = sums_ld;
    args.next_v = nullptr;
    args.next_v_lines = 0;
    const T* r = r_packed;
    int64_t r_step = r_tile;  // from tile to tile, or from row to row
    if (plan.copy_r) {
      args.r_stride = r_ld;
      const char* from = elements.at(op.r, row0 * plan.r_row + p0 * plan.r_k);
      if (plan.by_rows) {
        for (int64_t t = 0; t < tiles.count; ++t) {
          const int64_t h = tiles.height(t);
          elements.pack_rows(from, plan.r_row, plan.r_k, h, args.k, op.alpha, r_packed + t * r_tile, r_ld);
          from = elements.at(from, h * plan.r_row);
        }
      } else {
        elements.pack_columns(from, plan.r_row, plan.r_k, tiles, k, op.alpha, r_packed, r_tile);
      }
    } else {
      args.r_stride = plan.by_rows ? plan.r_row : plan.r_k;
      r = static_cast<const T*>(op.r) + row0 * plan.r_row + p0 * plan.r_k;
      r_step = plan.r_row;
    }
    const int64_t share = chunk_count(args.k * sliver, tiles.count);  // of the next sliver, per tile
    for (int64_t j = 0; j < cols; j += args.cols) {
      const int64_t left = chunk_count(cols - j, w);
      const bool few_rows = rows <= 3 && !plan.copy_v;
      const int vecs = few_rows && rows == 1 && left >= 8 ? 8 : few_rows && left >= 4 ? 4 : left >= 2 ? 2 : 1;
      args.cols = std::min(vecs * w, cols - j);
      if (plan.copy_v) {
        args.v = v_packed + plan.packed(p0) * v_cols + (col0 + j) * args.k;
        args.v_stride = sliver;
        args.next_v = args.v + args.k * sliver;
        args.next_v_lines =
            j + sliver < cols ? chunk_count(share * static_cast<int64_t>(sizeof(T)), 64 * gemm::kRows) : 0;
      } else {
        args.v = static_cast<const T*>(op.v) + p0 * plan.v_k + (col0 + j) * plan.v_col;
        args.v_stride = plan.v_k;
      }
      const gemm::TileKernel<T> kernels[2] = {
          elements.kernel(tiles.low, vecs, plan.by_rows, plan.prefetch),
          tiles.taller == 0 ? nullptr : elements.kernel(tiles.low + 1, vecs, plan.by_rows, plan.prefetch)};
      args.r = r;
      args.c = sums + j;
      args.start = start == nullptr ? nullptr : start + j;
      for (int64_t t = 0; t < tiles.count; ++t) {
        const int64_t h = tiles.height(t);
        args.rows = h;
        kernels[h - tiles.low](args);
        args.r += plan.copy_r ? r_step : h * r_step;
        args.c += h * sums_ld;
        if (start != nullptr) args.start += h * start_row;
        if (args.next_v != nullptr) args.next_v += share;
      }
    }
    start = sums, start_row = sums_ld;
  }
  if (apart) elements.end_sums(plan, op, row0, rows, col0, cols, sums, sums_ld);
}

// --- scalar products ---------------------------------------------------------------------------------

// C = alpha * A * B + beta * C + bias with engine/gemm/dots_cpu.h; A and B are contiguous along k.
template <class T>
void run_dots(const Gemm& g, int64_t batch, int64_t a_batch, int64_t b_batch, int64_t c_batch, T alpha,
              const T* a, const T* b, T beta, const T* bias, T* c) {
  constexpr int64_t tall = gemm::kTall<T>, narrow = gemm::kShort<T>;
  const RowTiles heights(g.m, tall);
  const double work = work_of(g.m, g.n, g.k);
  const auto parts = static_cast<int64_t>(std::max(work / kTaskWork, 1.0));
  const int64_t cols_task = round_up(chunk_count(g.n, parts), narrow), tasks = chunk_count(g.n, cols_task);
  const int64_t grain = gemm::grain_of(work / static_cast<double>(tasks));
  parallel_for(batch * tasks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t item = t / tasks, col0 = t % tasks * cols_task;
      const RowTiles widths(std::min(cols_task, g.n - col0), narrow);
      for (int64_t jt = 0; jt < widths.count; ++jt) {
        const int64_t j0 = col0 + widths.begin(jt), wide = widths.height(jt);
        const gemm::DotKernel<T> kernels[2] = {
            gemm::dot_kernel<T>(heights.low, wide),
            heights.taller == 0 ? nullptr : gemm::dot_kernel<T>(heights.low + 1, wide)};
        gemm::DotArgs<T> args{g.k,     a + item * a_batch,
                              g.a_row, b + item * b_batch + j0 * g.b_col,
                              g.b_col, c + item * c_batch + j0,
                              g.c_row, alpha,
                              beta,    bias == nullptr ? nullptr : bias + j0};
        for (int64_t it = 0; it < heights.count; ++it) {
          const int64_t high = heights.height(it);
          kernels[high - heights.low](args);
          args.a += high * g.a_row;
          args.c += high * g.c_row;
        }
      }
    }
  });
}

// --- all tasks ---------------------------------------------------------------------------------------

// The most elements of V that are packed at a time.
constexpr int64_t kMostPacked = int64_t{1} << 24;
// Elements whose packing is worth a thread: 3 us or more.
constexpr int64_t kPackedTogether = 1 << 13;

template <class T>
void run(const Elements<T>& elements, const Gemm& g, int64_t batch, int64_t a_batch, int64_t b_batch,
         int64_t c_batch, T alpha, const void* a, const void* b, T beta, const void* bias, void* c) {
  if (g.m <= 0 || g.n <= 0 || batch <= 0) return;
  const Plan plan = make_plan<T>(g, elements.convert, elements.packing, alpha != 1);
  if (plan.dots) {
    const T* const as = static_cast<const T*>(a);
    const T* const bs = static_cast<const T*>(b);
    const T* const biases = static_cast<const T*>(bias);
    T* const cs = static_cast<T*>(c);
    if (g.b_row == 1)
      return run_dots<T>(g, batch, a_batch, b_batch, c_batch, alpha, as, bs, beta, biases, cs);
    Gemm turned = g;
    turned.b_row = 1;
    turned.b_col = round_up(g.k, simd::Vector<T>::kSize);
    T* const copy = scratch<T>(1, g.n * turned.b_col);
    const int64_t items = b_batch == 0 ? batch : 1;
    for (int64_t item = 0; item < batch; item += items) {
      gemm::pack_transposed<T>(bs + item * b_batch, g.b_row, g.n, g.k, copy, turned.b_col);
      run_dots<T>(turned, items, a_batch, 0, c_batch, alpha, as + item * a_batch, copy, beta, biases,
                  cs + item * c_batch);
    }
    return;
  }
  constexpr int64_t sliver = 2 * simd::Vector<T>::kSize;
  const int64_t tasks = plan.tasks();
  const int64_t v_batch = plan.swapped ? a_batch : b_batch;
  const auto operands = [&](int64_t item) {
    Operands<T> op{elements, elements.at(a, item * a_batch),   elements.at(b, item * b_batch),
                   bias,     elements.at_c(c, item * c_batch), alpha,
                   beta};
    if (plan.swapped) std::swap(op.r, op.v);
    return op;
  };
  const int64_t v_cols = round_up(plan.cols, sliver);
  const int64_t panel = std::max(sliver, kMostPacked / std::max<int64_t>(plan.k, 1) / sliver * sliver);
  if (plan.copy_v && plan.cols > panel) {  // so many columns at a time that their copy stays small
    for (int64_t j = 0; j < plan.cols; j += panel) {
      Gemm part = g;
      (plan.swapped ? part.m : part.n) = std::min(panel, plan.cols - j);
      if (plan.swapped) {
        run<T>(elements, part, batch, a_batch, b_batch, c_batch, alpha, elements.at(a, j * g.a_row), b, beta,
               bias, elements.at_c(c, j * g.c_row));
      } else {
        run<T>(elements, part, batch, a_batch, b_batch, c_batch, alpha, a, elements.at(b, j * g.b_col), beta,
               bias == nullptr ? nullptr : elements.at(bias, j), elements.at_c(c, j));
      }
    }
    return;
  }
  // Cache lines that another core has written are expensive to read, and more so to write. So each thread packs few columns
  // for itself. With many columns, tasks go column by column: the thread that packed a column then mostly works with it.
  // (How C is cut and who packs does not change the bits. num_threads() of a lent executor takes a lock: it is not called
  // where nothing is packed.)
  const int64_t threads = plan.copy_v ? num_threads() : 1;
  const bool for_oneself =
      plan.copy_v && batch == 1 && plan.cols * threads <= plan.rows &&
      plan.packed(plan.k) * v_cols * static_cast<int64_t>(sizeof(T)) <= gemm::near_bytes();
  const bool by_columns = plan.copy_v && !for_oneself;
  const auto one_task = [&](const Operands<T>& op, const T* v_packed, int64_t t) {
    const int64_t row = by_columns ? t % plan.row_tasks : t / plan.col_tasks;
    const int64_t col = by_columns ? t / plan.row_tasks : t % plan.col_tasks;
    const int64_t row0 = row * plan.rows_task, col0 = col * plan.cols_task;
    run_task<T>(plan, op, v_packed, row0, std::min(plan.rows_task, plan.rows - row0), col0,
                std::min(plan.cols_task, plan.cols - col0));
  };
  // V is packed in blocks k_block deep, of so many slivers that every thread has one, but up to 16, and runs of 256 bytes:
  // reads from memory are then not too short. Where runs go along k one sliver will do; pairs, which are packed sliver by
  // sliver, take four.
  const int64_t shared = std::clamp<int64_t>(chunk_count(plan.cols, sliver * threads),
                                             256 / (sliver * static_cast<int64_t>(sizeof(T))), 16);
  const int64_t group = sliver * (plan.packing.pairs ? 4 : plan.v_k == 1 && plan.v_col != 1 ? 1 : shared);
  const int64_t deep = chunk_count(plan.k, plan.k_block), blocks = chunk_count(plan.cols, group) * deep;
  const auto pack = [&](const Operands<T>& op, T* out, int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t p0 = block % deep * plan.k_block, col0 = block / deep * group;
      const int64_t k = std::min(plan.k_block, plan.k - p0), cols = std::min(group, plan.cols - col0);
      elements.pack_vectors(elements.at(op.v, p0 * plan.v_k + col0 * plan.v_col), plan.v_k, plan.v_col, k,
                            cols, out + plan.packed(p0) * v_cols + col0 * plan.packed(k));
    }
  };

  if (batch == 1 && tasks == 1) {
    const Operands<T> op = operands(0);
    T* const v_packed = plan.copy_v ? scratch<T>(1, plan.packed(plan.k) * v_cols) : nullptr;
    if (plan.copy_v) pack(op, v_packed, 0, blocks);
    return run_task<T>(plan, op, v_packed, 0, plan.rows, 0, plan.cols);
  }

  const int64_t grain = gemm::grain_of(plan.work / static_cast<double>(tasks));
  if (!plan.copy_v || (tasks == 1 && v_batch != 0)) {
    parallel_for(batch * tasks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const Operands<T> op = operands(t / tasks);
        T* const v_packed = plan.copy_v ? scratch<T>(1, plan.packed(plan.k) * v_cols) : nullptr;
        if (plan.copy_v) pack(op, v_packed, 0, blocks);
        one_task(op, v_packed, t % tasks);
      }
    });
    return;
  }
  if (for_oneself) {
    static std::atomic<int64_t> products{0};
    const int64_t product = ++products;
    parallel_for(tasks, grain, [&](int64_t begin, int64_t end) {
      thread_local int64_t packed = 0;  // the product for which this thread did so last
      const Operands<T> op = operands(0);
      T* const v_packed = scratch<T>(1, plan.packed(plan.k) * v_cols);
      if (packed != product) pack(op, v_packed, 0, blocks);
      packed = product;
      for (int64_t t = begin; t < end; ++t) one_task(op, v_packed, t);
    });
    return;
  }
  // Item by item, or for all items if they share V: all threads pack V, then all of them compute.
  T* const v_packed = scratch<T>(1, plan.packed(plan.k) * v_cols);
  const int64_t pack_grain = 1 + kPackedTogether / (std::min(group, v_cols) * plan.k_block);
  const int64_t items = v_batch == 0 ? batch : 1;
  for (int64_t item = 0; item < batch; item += items) {
    parallel_for(blocks, pack_grain,
                 [&](int64_t begin, int64_t end) { pack(operands(item), v_packed, begin, end); });
    parallel_for(items * tasks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) one_task(operands(item + t / tasks), v_packed, t % tasks);
    });
  }
}

// --- by type -----------------------------------------------------------------------------------------

template <class T, class Out>
[[gnu::noinline]] void any(const Gemm& g, int64_t batch, int64_t a_batch, int64_t b_batch, int64_t c_batch,
                           compute_t<T> alpha, const T* a, const T* b, compute_t<T> beta, const T* bias,
                           Out* c) {
  if (g.k <= 0) {  // Without elements there is no address to step from: one term, -0, which adds nothing.
    static const T zero(compute_t<T>(0)), minus_zero(-compute_t<T>(0));
    Gemm one = g;
    one.k = 1;
    one.a_row = one.a_col = one.b_row = one.b_col = 0;
    return any<T, Out>(one, batch, 0, 0, c_batch, compute_t<T>(1), &zero, &minus_zero, beta, bias, c);
  }
  if constexpr (std::is_integral_v<T>) {
    gemm::run_integer<T>(g, batch, a_batch, b_batch, c_batch, alpha, a, b, beta, bias, c);
  } else {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    if constexpr (std::is_same_v<T, BFloat16>)
      if (alpha == 1 && gemm::pairs_run())
        return run<float>(gemm::amx_runs(g) ? gemm::kAmx<Out> : gemm::kPairs<Out>, g, batch, a_batch, b_batch,
                          c_batch, alpha, a, b, beta, bias, c);
#endif
    run<compute_t<T>>(kElements<T, compute_t<T>, Out>, g, batch, a_batch, b_batch, c_batch, alpha, a, b, beta,
                      bias, c);
  }
}

}  // namespace

template <class T, class Out>
void gemm_cpu(const Gemm& shape, compute_t<T> alpha, const T* a, const T* b, compute_t<T> beta,
              std::type_identity_t<Out>* c) {
  any<T, Out>(shape, 1, 0, 0, 0, alpha, a, b, beta, nullptr, c);
}

template <class T>
void gemm_bias_cpu(const Gemm& shape, const T* a, const T* b, const T* bias, T* c) {
  any<T, T>(shape, 1, 0, 0, 0, compute_t<T>(1), a, b, compute_t<T>(0), bias, c);
}

template <class T, class Out>
void gemm_batched_cpu(const Gemm& shape, int64_t batch, int64_t a_batch, int64_t b_batch, int64_t c_batch,
                      compute_t<T> alpha, const T* a, const T* b, compute_t<T> beta,
                      std::type_identity_t<Out>* c) {
  any<T, Out>(shape, batch, a_batch, b_batch, c_batch, alpha, a, b, beta, nullptr, c);
}

#define CT_GEMM(T, Out)                                                                                 \
  template void gemm_cpu<T, Out>(const Gemm&, compute_t<T>, const T*, const T*, compute_t<T>, Out*);    \
  template void gemm_batched_cpu<T, Out>(const Gemm&, int64_t, int64_t, int64_t, int64_t, compute_t<T>, \
                                         const T*, const T*, compute_t<T>, Out*)
#define CT_GEMM_BIAS(T) \
  CT_GEMM(T, T);        \
  template void gemm_bias_cpu<T>(const Gemm&, const T*, const T*, const T*, T*)
CT_GEMM_BIAS(float);
CT_GEMM_BIAS(double);
CT_GEMM_BIAS(Half);
CT_GEMM_BIAS(BFloat16);
CT_GEMM_BIAS(std::int64_t);
CT_GEMM_BIAS(std::int32_t);
CT_GEMM_BIAS(std::uint8_t);
CT_GEMM(Half, float);
CT_GEMM(BFloat16, float);
#undef CT_GEMM_BIAS
#undef CT_GEMM

namespace gemm {
template TileKernel<float> tile_kernel<float>(int64_t, int, bool, bool);
template TileKernel<double> tile_kernel<double>(int64_t, int, bool, bool);
template DotKernel<float> dot_kernel<float>(int64_t, int64_t);
template DotKernel<double> dot_kernel<double>(int64_t, int64_t);
}  // namespace gemm

}  // namespace ct

// Weak: tests link these products by name beside the library's, and a program has a table once.
namespace ct::cpu_kernels {
[[gnu::weak]] extern const GemmFunctions gemms;
}
CT_FUNCTIONS(cpu, GemmFunctions, gemms, gemm_cpu<double>)
