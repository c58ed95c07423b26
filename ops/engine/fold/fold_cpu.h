#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cotangent/core/base/function_ref.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/engine/fold/plan.h>
#include <cotangent/ops/engine/rows/operands_cpu.h>

// The CPU half of every reduction: walks a Plan and leaves the arithmetic to a fold (engine/fold/sum_fold_cpu.h is the simplest).
//
// Elements are read in blocks (engine/rows/blocks_cpu.h), converted to float, double or int64, so that folds exist for these
// alone. A fold has
//     C, Acc, Second        the element type, what is carried, the type of a second result
//     kPositions            whether element numbers matter
//     Acc identity()
//     run(x, n)             optional, and may be null: what n elements come to, read as they are stored
//     stored_quad(Acc*, rows, n)  the same of lanes(), of four rows
//     void block(Acc&, const C* x, int n, int64 index)  folds n contiguous elements; x[0] is number index
//     void lanes(Acc*, const C* x, int n, int64 index)  folds x[j] into acc[j]; each is number index
//     void merge(Acc&, const Acc& later)                folds in what comes behind
//     void finish(const Acc&, C& value, Second& second)
//     finish_run(acc, values, n)                        instead, of n outputs, where no fold has a second result
// Work is cut by the problem alone; partial results are merged in order.

namespace ct::fold {

using rows::kBlock, rows::kColumns, rows::Source, rows::Sink, rows::source_of, rows::sink_of;

inline constexpr std::int64_t kChunkWork = 32768;  // elements that are worth a chunk of their own

template <class F>
void write_results(const F& fold, const typename F::Acc* acc, std::int64_t first, int n,
                   const Sink<typename F::C>& sink) {
  typename F::C values[kBlock];
  if constexpr (requires { fold.finish_run(acc, values, n); }) {
    fold.finish_run(acc, values, n);
  } else if (sink.second) {
    auto* second = static_cast<typename F::Second*>(sink.second) + first;
    for (int i = 0; i < n; ++i) fold.finish(acc[i], values[i], second[i]);
  } else {
    typename F::Second unused;
    for (int i = 0; i < n; ++i) fold.finish(acc[i], values[i], unused);
  }
  if (sink.values) sink.store(sink.values, first, values, n, sink.accumulate);
}

// ---- walking ----

/// Functions of a fold for the walk over a plan, which is compiled once for all folds: to it an Acc is acc_size bytes, and
/// each call serves many elements.
struct Steps {
  std::size_t acc_size;
  /// Folds elements [begin, end) of n outputs from output k on, or of n <= kColumns neighbouring columns that start at `base`.
  FunctionRef<void(std::int64_t k, int n, std::int64_t begin, std::int64_t end, std::byte* acc)> rows;
  FunctionRef<void(std::int64_t base, int n, std::int64_t begin, std::int64_t end, std::byte* acc)> columns;
  FunctionRef<void(std::byte* acc, const std::byte* later, int n)> merge;
  FunctionRef<void(const std::byte* acc, std::int64_t first, int n)> write;
};
inline constexpr std::size_t kMaxAcc = 40;  // bytes

void walk_plan(const Plan& plan, const Steps& steps);

template <class F>
void fold_run(const F& fold, const Plan& plan, const Source<typename F::C>& x, std::int64_t base,
              std::int64_t begin, std::int64_t end, typename F::Acc& acc) {
  typename F::C buffer[kBlock];
  const Axis inner = plan.reduced[0];
  const bool one_run = plan.reduced[1].size == 1;  // spares short rows the divisions
  for (std::int64_t r = begin; r < end;) {
    const std::int64_t left = one_run ? end - r : std::min(inner.size - r % inner.size, end - r);
    const std::int64_t offset = one_run ? r * inner.stride : plan.reduced_offset(r);
    if constexpr (requires { fold.run; }) {
      if (fold.run && inner.stride == 1) {
        acc += fold.run(x.at(base + offset), left);
        r += left;
        continue;
      }
    }
    const int n = static_cast<int>(std::min<std::int64_t>(left, kBlock));
    fold.block(acc, x.read(base + offset, inner.stride, n, buffer), n, r);
    r += n;
  }
}

// Rows are gone through as they lie in memory, four at a time where the fold can, so that they arrive as a stream.
template <class F>
void fold_columns(const F& fold, const Plan& plan, const Source<typename F::C>& x, std::int64_t base, int n,
                  std::int64_t begin, std::int64_t end, typename F::Acc* acc) {
  typename F::C buffer[4][kBlock];
  const auto row = [&](std::int64_t r, int first, int count, int slot) {
    return x.read(base + plan.reduced_offset(r) + first, 1, count, buffer[slot]);
  };
  // noinline: one copy for each fold.
  const auto fold_row = [&](typename F::Acc * to, std::int64_t r, int first, int count)
      __attribute__((noinline)) {
    fold.lanes(to, row(r, first, count, 0), count, r);
  };
  std::int64_t r = begin;
  // Narrow gapless rows are read several at a time, as one long row, so that vectors are full.
  const bool gapless = plan.reduced[1].size == 1 && plan.reduced[0].stride == n;
  if constexpr (!F::kPositions) {
    if (gapless && n <= 32 && end - begin >= 256 / n) {
      const int rows = 256 / n, wide = rows * n;
      typename F::Acc lanes[256];
      for (int j = 0; j < wide; ++j) lanes[j] = fold.identity();
      for (; r + rows <= end; r += rows) fold_row(lanes, r, 0, wide);
      for (int j = 0; j < wide; ++j) fold.merge(acc[j % n], lanes[j]);
    }
  }
  if constexpr (requires { fold.stored_quad; })
    for (; fold.stored_quad && r + 4 <= end; r += 4) {
      const auto at = [&](std::int64_t i) { return x.at(base + plan.reduced_offset(r + i)); };
      fold.stored_quad(acc, {at(0), at(1), at(2), at(3)}, n);
    }
  if constexpr (requires { fold.takes_quads(); }) {
    if (fold.takes_quads()) {
      for (; r + 4 <= end; r += 4)
        for (int j = 0; j < n; j += kBlock) {
          const int m = std::min(kBlock, n - j);
          fold.quad(acc + j, row(r, j, m, 0), row(r + 1, j, m, 1), row(r + 2, j, m, 2), row(r + 3, j, m, 3),
                    m);
        }
    }
  }
  for (; r < end; ++r)
    for (int j = 0; j < n; j += kBlock) fold_row(acc + j, r, j, std::min(kBlock, n - j));
}

/// Reduces what `plan` says of `x`.
template <class F>
void run_fold(const F& fold, const Plan& plan, const Source<typename F::C>& x,
              const Sink<typename F::C>& sink) {
  using Acc = typename F::Acc;
  static_assert(sizeof(Acc) <= kMaxAcc && std::is_trivially_copyable_v<Acc>);
  const auto begin_sums = [&](int n, std::byte* bytes) {
    Acc* acc = reinterpret_cast<Acc*>(bytes);
    for (int i = 0; i < n; ++i) acc[i] = fold.identity();
    return acc;
  };
  walk_plan(plan, {sizeof(Acc),
                   [&](std::int64_t k, int n, std::int64_t begin, std::int64_t end, std::byte* bytes) {
                     Acc* acc = begin_sums(n, bytes);
                     Source<typename F::C> from = x;
                     if constexpr (requires { fold.passes; })
                       if (fold.passes) from.data = static_cast<const char*>(fold.passes->load(begin, end));
                     for (int i = 0; i < n && begin < end; ++i)
                       fold_run(fold, plan, from, plan.kept_offset(k + i), begin, end, acc[i]);
                   },
                   [&](std::int64_t base, int n, std::int64_t begin, std::int64_t end, std::byte* bytes) {
                     fold_columns(fold, plan, x, base, n, begin, end, begin_sums(n, bytes));
                   },
                   [&](std::byte* acc, const std::byte* later, int n) {
                     for (int i = 0; i < n; ++i)
                       fold.merge(reinterpret_cast<Acc*>(acc)[i], reinterpret_cast<const Acc*>(later)[i]);
                   },
                   [&](const std::byte* acc, std::int64_t first, int n) {
                     write_results(fold, reinterpret_cast<const Acc*>(acc), first, n, sink);
                   }});
}

/// Calls f(C{}) with the type that `t` is folded in.
template <class F>
void visit_fold_type(DType t, F&& f) {
  if (!is_floating(t)) {
    f(std::int64_t{});
  } else if (t == DType::f64) {
    f(double{});
  } else {
    f(float{});
  }
}

}  // namespace ct::fold
