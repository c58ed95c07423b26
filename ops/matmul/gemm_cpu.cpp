#include "gemm_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>

#include <cotangent/core/parallel.h>

#include "gemm_cpu_tiles.h"

namespace ct {
namespace {

using gemm::Simd;
using gemm::TileArgs;
using std::int64_t;

// A buffer that a thread keeps from call to call. Three are enough: packed rows, packed vectors, sums.
class Scratch {
 public:
  ~Scratch() { release(); }
  void* get(std::size_t bytes) {
    if (bytes > size_) {
      release();
      memory_ = ::operator new(bytes, kAlign);
      size_ = bytes;
    }
    return memory_;
  }

 private:
  static constexpr std::align_val_t kAlign{64};
  void release() {
    if (memory_ != nullptr) ::operator delete(memory_, kAlign);
    memory_ = nullptr;
    size_ = 0;
  }
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

template <class T>
T* scratch(int slot, int64_t count) {
  thread_local Scratch buffers[3];
  return static_cast<T*>(buffers[slot].get(static_cast<std::size_t>(count) * sizeof(T)));
}

int64_t round_up(int64_t x, int64_t step) { return (x + step - 1) / step * step; }

// The product in the roles of the kernels (see gemm_cpu_tiles.h), with everything that was decided about
// it. Normally R is A and V is B. Swapped, C^T = B^T A^T is computed: R is B^T, V is A^T.
struct Plan {
  int64_t rows, cols, k;  // R is [rows, k], V is [k, cols]
  int64_t r_row, r_k, v_k, v_col, c_row;
  bool swapped;
  bool copy_r, copy_v;  // pack them, or read them where they are
  bool by_rows;         // the kernels find R row by row, or column by column
  int64_t rows_task, cols_task, row_tasks, col_tasks, k_block;

  int64_t tasks() const { return row_tasks * col_tasks; }
};

template <class In, class T>
struct Operands {
  const In* r;
  const In* v;
  const In* bias;  // along the columns of C, null for none
  In* c;
  T alpha, beta;
};

// --- packing -----------------------------------------------------------------------------------------

// Rows [0, rows) and k-range [0, k) of R, times alpha, each row contiguous; stride `ld`.
template <class In, class T>
void pack_rows(const In* r, int64_t r_row, int64_t r_k, int64_t rows, int64_t k, T alpha, T* out,
               int64_t ld) {
  for (int64_t i = 0; i < rows; ++i) {
    const In* from = r + i * r_row;
    T* to = out + i * ld;
    if (r_k == 1) {
      for (int64_t p = 0; p < k; ++p) to[p] = alpha * static_cast<T>(from[p]);
    } else {
      for (int64_t p = 0; p < k; ++p) to[p] = alpha * static_cast<T>(from[p * r_k]);
    }
  }
}

// The same, p by p: out[p * ld + i].
template <class In, class T>
void pack_columns(const In* r, int64_t r_row, int64_t r_k, int64_t rows, int64_t k, T alpha, T* out,
                  int64_t ld) {
  for (int64_t p = 0; p < k; ++p) {
    const In* from = r + p * r_k;
    T* to = out + p * ld;
    if (r_row == 1) {
      for (int64_t i = 0; i < rows; ++i) to[i] = alpha * static_cast<T>(from[i]);
    } else {
      for (int64_t i = 0; i < rows; ++i) to[i] = alpha * static_cast<T>(from[i * r_row]);
    }
  }
}

// out[p * ld + j] = v[j * v_col + p]: a transposition, in registers where whole blocks fit.
template <class T>
void pack_transposed(const T* v, int64_t v_col, int64_t k, int64_t cols, T* out, int64_t ld) {
  using S = Simd<T>;
  constexpr int64_t w = S::kWidth;
  for (int64_t j = 0; j < cols; j += w) {
    const int64_t wide = std::min(w, cols - j);
    for (int64_t p = 0; p < k; p += w) {
      const int64_t deep = std::min(w, k - p);
      const auto mask = S::mask(deep);
      typename S::V block[w];
      for (int64_t l = 0; l < w; ++l)
        block[l] = l < wide ? S::load(v + (j + l) * v_col + p, mask) : S::zero();
      gemm::transpose(block);
      const auto column_mask = S::mask(wide);
      for (int64_t l = 0; l < w; ++l)
        if (l < deep) S::store(out + (p + l) * ld + j, block[l], column_mask);
    }
  }
}

template <class In, class T>
void pack_vectors(const In* v, int64_t v_k, int64_t v_col, int64_t k, int64_t cols, T* out, int64_t ld) {
  if constexpr (std::is_same_v<In, T>) {
    if (v_k == 1 && v_col != 1) return pack_transposed(v, v_col, k, cols, out, ld);
  }
  for (int64_t p = 0; p < k; ++p) {
    const In* from = v + p * v_k;
    T* to = out + p * ld;
    if (v_col == 1) {
      for (int64_t j = 0; j < cols; ++j) to[j] = static_cast<T>(from[j]);
    } else {
      for (int64_t j = 0; j < cols; ++j) to[j] = static_cast<T>(from[j * v_col]);
    }
  }
}

// --- one task ----------------------------------------------------------------------------------------

template <class T>
constexpr T kZeros[2 * Simd<T>::kWidth] = {};

// What the sums of a task begin with, where they are kept outside of C: bias, beta * C or 0.
template <class In, class T>
void begin_sums(const Plan& plan, const Operands<In, T>& op, int64_t row0, int64_t rows, int64_t col0,
                int64_t cols, T* sums, int64_t ld) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t m = plan.swapped ? col0 + j : row0 + i;
      const int64_t n = plan.swapped ? row0 + i : col0 + j;
      T x = 0;
      if (op.beta != 0) x = op.beta * static_cast<T>(op.c[m * plan.c_row + n]);
      if (op.bias != nullptr) x += static_cast<T>(op.bias[n]);
      sums[i * ld + j] = x;
    }
  }
}

// Brings such sums to C.
template <class In, class T>
void end_sums(const Plan& plan, const Operands<In, T>& op, int64_t row0, int64_t rows, int64_t col0,
              int64_t cols, const T* sums, int64_t ld) {
  if (plan.swapped) {
    In* c = op.c + col0 * plan.c_row + row0;
    if constexpr (std::is_same_v<In, T>) {
      pack_transposed(sums, ld, cols, rows, c, plan.c_row);
    } else {
      for (int64_t j = 0; j < cols; ++j)
        for (int64_t i = 0; i < rows; ++i) c[j * plan.c_row + i] = static_cast<In>(sums[i * ld + j]);
    }
  } else {
    In* c = op.c + row0 * plan.c_row + col0;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) c[i * plan.c_row + j] = static_cast<In>(sums[i * ld + j]);
  }
}

// Computes rows [row0, row0 + rows) and columns [col0, col0 + cols) of C, over all of k. A sliver of V,
// k_block deep and two vectors wide, stays in the first-level cache while all rows pass by; those stay in the
// second.
template <class In, class T>
void run_task(const Plan& plan, const Operands<In, T>& op, int64_t row0, int64_t rows, int64_t col0,
              int64_t cols) {
  using S = Simd<T>;
  constexpr int64_t w = S::kWidth, sliver = 2 * w;
  constexpr bool kConvert = !std::is_same_v<In, T>;
  const int64_t tiles = chunk_count(rows, S::kRows);
  const int64_t low = rows / tiles,
                taller = rows % tiles;  // the first `taller` tiles have a row more than `low`

  // Sums live in C itself where they fit there.
  const bool apart = kConvert || plan.swapped;
  T* sums;
  int64_t sums_ld;
  const T* start = kZeros<T>;
  int64_t start_row = 0, start_col = 0;
  if (apart) {
    sums_ld = round_up(cols, w);
    sums = scratch<T>(2, rows * sums_ld);
    if (op.beta != 0 || op.bias != nullptr) {
      begin_sums(plan, op, row0, rows, col0, cols, sums, sums_ld);
      start = sums, start_row = sums_ld, start_col = 1;
    }
  } else if constexpr (!kConvert) {
    sums_ld = plan.c_row;
    sums = op.c + row0 * plan.c_row + col0;
    if (op.beta != 0) {
      if (op.beta != 1)
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < cols; ++j) sums[i * sums_ld + j] *= op.beta;
      start = sums, start_row = sums_ld, start_col = 1;
    } else if (op.bias != nullptr) {
      start = op.bias + col0, start_col = 1;
    }
  }

  const int64_t depth = std::min(plan.k, plan.k_block);
  const int64_t r_ld = plan.by_rows ? round_up(depth, 16) + 16 : S::kRows;
  T* const r_packed =
      plan.copy_r ? scratch<T>(0, plan.by_rows ? rows * r_ld : tiles * depth * r_ld) : nullptr;
  T* const v_packed = plan.copy_v ? scratch<T>(1, depth * sliver) : nullptr;

  for (int64_t p0 = 0; p0 == 0 || p0 < plan.k; p0 += plan.k_block) {
    const int64_t k = std::min(plan.k_block, plan.k - p0);
    if (plan.copy_r) {
      const In* r = op.r + row0 * plan.r_row + p0 * plan.r_k;
      if (plan.by_rows) {
        pack_rows(r, plan.r_row, plan.r_k, rows, k, op.alpha, r_packed, r_ld);
      } else {
        for (int64_t t = 0, i = 0; t < tiles; ++t) {
          const int64_t h = low + (t < taller);
          pack_columns(r + i * plan.r_row, plan.r_row, plan.r_k, h, k, op.alpha, r_packed + t * depth * r_ld,
                       r_ld);
          i += h;
        }
      }
    }
    for (int64_t j = 0; j < cols; j += sliver) {
      TileArgs<T> args;
      args.k = k;
      args.cols = std::min(sliver, cols - j);
      args.start_stride = start_row;
      args.c_stride = sums_ld;
      const int vecs = args.cols > w ? 2 : 1;
      const In* v = op.v + p0 * plan.v_k + (col0 + j) * plan.v_col;
      if (plan.copy_v) {
        pack_vectors(v, plan.v_k, plan.v_col, k, args.cols, v_packed, sliver);
        args.v = v_packed;
        args.v_stride = sliver;
      } else if constexpr (!kConvert) {
        args.v = v;
        args.v_stride = plan.v_k;
      }
      for (int64_t t = 0, i = 0; t < tiles; ++t) {
        const int64_t h = low + (t < taller);
        if (plan.copy_r) {
          args.r = r_packed + (plan.by_rows ? i * r_ld : t * depth * r_ld);
          args.r_stride = r_ld;
        } else if constexpr (!kConvert) {
          args.r = op.r + (row0 + i) * plan.r_row + p0 * plan.r_k;
          args.r_stride = plan.by_rows ? plan.r_row : plan.r_k;
        }
        args.start = start + i * start_row + j * start_col;
        args.c = sums + i * sums_ld + j;
        gemm::tile_kernel<T>(static_cast<int>(h), vecs, plan.by_rows)(args);
        i += h;
      }
    }
    start = sums, start_row = sums_ld, start_col = 1;
  }
  if (apart) end_sums(plan, op, row0, rows, col0, cols, sums, sums_ld);
}

// --- planning ----------------------------------------------------------------------------------------

int64_t tune(const char* name, int64_t otherwise) {
  const char* s = std::getenv(name);
  return s ? std::atoll(s) : otherwise;
}

// Shapes are chosen, and k is cut, by sizes and strides alone.
template <class In, class T>
Plan make_plan(Gemm g, bool scale_a) {
  using S = Simd<T>;
  constexpr int64_t w = S::kWidth, sliver = 2 * w;
  // Where a size is 1 its stride does not matter: take the one that suits.
  if (g.m == 1) g.a_row = g.a_col == 1 ? g.k : 1;
  if (g.k == 1) g.a_col = g.a_row == 1 ? g.m : 1, g.b_row = g.b_col == 1 ? g.n : 1;
  if (g.n == 1) g.b_col = 1;

  // Estimates in cycles: products, transpositions of V, and of C.
  const double m = static_cast<double>(g.m), n = static_cast<double>(g.n), k = static_cast<double>(g.k);
  const auto pack_cost = [](int64_t along_k, int64_t across) {
    return across == 1 ? 0.0 : along_k == 1 ? 0.35 : 1.5;
  };
  const auto vecs = [](int64_t x) { return static_cast<double>(chunk_count(x, w)); };
  const double normal = m * vecs(g.n) * k / 2 + pack_cost(g.b_row, g.b_col) * n * k;
  const double swapped = n * vecs(g.m) * k / 2 + pack_cost(g.a_col, g.a_row) * m * k + m * n;

  Plan plan{};
  plan.swapped = swapped < normal;
  plan.k = g.k;
  plan.c_row = g.c_row;
  if (plan.swapped) {
    plan.rows = g.n, plan.cols = g.m;
    plan.r_row = g.b_col, plan.r_k = g.b_row, plan.v_k = g.a_col, plan.v_col = g.a_row;
  } else {
    plan.rows = g.m, plan.cols = g.n;
    plan.r_row = g.a_row, plan.r_k = g.a_col, plan.v_k = g.b_row, plan.v_col = g.b_col;
  }
  constexpr bool kConvert = !std::is_same_v<In, T>;
  static const int64_t t_kb = tune("KB", 256), t_cr = tune("CR", 1 << 30), t_cv = tune("CV", 96),
                       t_rt = tune("RT", 384), t_ct = tune("CT", 512), t_t = tune("TT", 8),
                       t_mac = tune("MAC", 20);
  plan.by_rows = plan.r_k == 1 || plan.r_row != 1;
  plan.copy_v = kConvert || plan.v_col != 1 || plan.rows >= t_cv;
  plan.copy_r = kConvert || scale_a || (plan.r_k != 1 && plan.r_row != 1) || plan.cols >= t_cr;
  // alpha scales A; in the swapped form that is V, and scaling R = B^T instead gives the same product.

  const int64_t blocks = std::max<int64_t>(1, chunk_count(plan.k, t_kb));
  plan.k_block = std::max<int64_t>(1, round_up(chunk_count(std::max<int64_t>(plan.k, 1), blocks), 4));

  // Tasks of a million multiply-adds or more, cut such that packing is repeated least.
  const double macs = m * n * k;
  const auto wanted = static_cast<int64_t>(std::clamp(macs / std::ldexp(1.0, (int)t_mac), 1.0, (double)t_t));
  const double pack_r = plan.copy_r ? 0.15 * static_cast<double>(plan.rows) : 0.01;
  const double pack_v = plan.copy_v ? (plan.v_col == 1 ? 0.15 : 0.35) * static_cast<double>(plan.cols) : 0.02;
  double best = 1e300;
  for (int64_t by_col = 1; by_col <= wanted; ++by_col) {
    const int64_t by_row = chunk_count(wanted, by_col);
    const int64_t ct = std::min(t_ct, round_up(chunk_count(plan.cols, by_col), sliver));
    const int64_t rt = std::min(t_rt, round_up(chunk_count(plan.rows, by_row), S::kRows));
    const int64_t col_tasks = chunk_count(plan.cols, ct), row_tasks = chunk_count(plan.rows, rt);
    // The largest task counts, not the mean one.
    const double waste = static_cast<double>(ct * rt) * static_cast<double>(wanted) / 32;
    const double cost =
        pack_r * static_cast<double>(col_tasks) + pack_v * static_cast<double>(row_tasks) + waste;
    if (cost < best) {
      best = cost;
      plan.cols_task = ct, plan.rows_task = rt, plan.col_tasks = col_tasks, plan.row_tasks = row_tasks;
    }
  }
  return plan;
}

template <class In, class T>
void run(const Gemm& g, int64_t batch, int64_t a_batch, int64_t b_batch, int64_t c_batch, T alpha,
         const In* a, const In* b, T beta, const In* bias, In* c) {
  if (g.m <= 0 || g.n <= 0 || batch <= 0) return;
  const Plan plan = make_plan<In, T>(g, alpha != 1);
  const int64_t tasks = plan.tasks();
  const double macs =
      static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(std::max<int64_t>(g.k, 1));
  const auto grain =
      static_cast<int64_t>(std::clamp(1048576.0 * static_cast<double>(tasks) / macs, 1.0, 1e9));
  parallel_for(batch * tasks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t item = t / tasks, row = t % tasks / plan.col_tasks, col = t % plan.col_tasks;
      Operands<In, T> op{a + item * a_batch, b + item * b_batch, bias, c + item * c_batch, alpha, beta};
      if (plan.swapped) std::swap(op.r, op.v);
      const int64_t row0 = row * plan.rows_task, col0 = col * plan.cols_task;
      run_task<In, T>(plan, op, row0, std::min(plan.rows_task, plan.rows - row0), col0,
                      std::min(plan.cols_task, plan.cols - col0));
    }
  });
}

// --- integers ----------------------------------------------------------------------------------------

// Integers: sums wrap around, hence the unsigned type.
template <class T>
void run_integer(const Gemm& g, int64_t batch, int64_t a_batch, int64_t b_batch, int64_t c_batch, T alpha,
                 const T* a, const T* b, T beta, const T* bias, T* c) {
  using U = std::make_unsigned_t<std::common_type_t<T, int>>;
  const int64_t row_cost = std::max<int64_t>(1, g.n * std::max<int64_t>(g.k, 1));
  parallel_for(batch * g.m, std::max<int64_t>(1, 65536 / row_cost), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const T* a_row = a + t / g.m * a_batch + t % g.m * g.a_row;
      const T* b_item = b + t / g.m * b_batch;
      T* c_row = c + t / g.m * c_batch + t % g.m * g.c_row;
      for (int64_t j = 0; j < g.n; ++j) {
        U x = beta == 0 ? U{0} : static_cast<U>(static_cast<U>(beta) * static_cast<U>(c_row[j]));
        if (bias != nullptr) x += static_cast<U>(bias[j]);
        c_row[j] = static_cast<T>(x);
      }
      for (int64_t p = 0; p < g.k; ++p) {
        const U scale = static_cast<U>(static_cast<U>(alpha) * static_cast<U>(a_row[p * g.a_col]));
        const T* b_row = b_item + p * g.b_row;
        for (int64_t j = 0; j < g.n; ++j)
          c_row[j] = static_cast<T>(static_cast<U>(c_row[j]) + scale * static_cast<U>(b_row[j * g.b_col]));
      }
    }
  });
}

template <class T>
void any(const Gemm& g, int64_t batch, int64_t a_batch, int64_t b_batch, int64_t c_batch, compute_t<T> alpha,
         const T* a, const T* b, compute_t<T> beta, const T* bias, T* c) {
  if constexpr (std::is_integral_v<T>) {
    run_integer<T>(g, batch, a_batch, b_batch, c_batch, alpha, a, b, beta, bias, c);
  } else {
    run<T, compute_t<T>>(g, batch, a_batch, b_batch, c_batch, alpha, a, b, beta, bias, c);
  }
}

}  // namespace

template <class T>
void gemm_cpu(const Gemm& shape, compute_t<T> alpha, const T* a, const T* b, compute_t<T> beta, T* c) {
  any<T>(shape, 1, 0, 0, 0, alpha, a, b, beta, nullptr, c);
}

template <class T>
void gemm_bias_cpu(const Gemm& shape, const T* a, const T* b, const T* bias, T* c) {
  any<T>(shape, 1, 0, 0, 0, compute_t<T>(1), a, b, compute_t<T>(0), bias, c);
}

template <class T>
void gemm_batched_cpu(const Gemm& shape, int64_t batch, int64_t a_batch, int64_t b_batch, int64_t c_batch,
                      compute_t<T> alpha, const T* a, const T* b, compute_t<T> beta, T* c) {
  any<T>(shape, batch, a_batch, b_batch, c_batch, alpha, a, b, beta, nullptr, c);
}

#define CT_GEMM(T)                                                                                           \
  template void gemm_cpu<T>(const Gemm&, compute_t<T>, const T*, const T*, compute_t<T>, T*);                \
  template void gemm_bias_cpu<T>(const Gemm&, const T*, const T*, const T*, T*);                             \
  template void gemm_batched_cpu<T>(const Gemm&, int64_t, int64_t, int64_t, int64_t, compute_t<T>, const T*, \
                                    const T*, compute_t<T>, T*)
CT_GEMM(float);
CT_GEMM(double);
CT_GEMM(Half);
CT_GEMM(BFloat16);
CT_GEMM(std::int64_t);
CT_GEMM(std::int32_t);
CT_GEMM(std::uint8_t);
#undef CT_GEMM

}  // namespace ct
