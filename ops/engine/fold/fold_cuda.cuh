#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/op/around.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/engine/fold/fold_kernels.cuh>

// The CUDA half of every reduction: which of the kernels (engine/fold/fold_kernels.cuh) run over a Plan, and in how many
// pieces.

namespace ct::fold {

/// Like gpu::launch, but where the kernel has the code for it, the blocks are brought up while the kernel before
/// still runs; the kernel waits for that one's results with cudaGridDependencySynchronize. It hides most of a
/// launch. The arguments have the types of the kernel's parameters.
template <auto kernel, class... Args>
void launch_after(const char* op, dim3 grid, dim3 block, std::size_t smem, const Args&... args) {
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = smem;
  config.stream = gpu::native_stream();
  config.attrs = &early;
  config.numAttrs = gpu::compiled_arch<kernel>(op) >= CT_EARLY_LAUNCH_ARCH ? 1 : 0;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, args...);
  if (status != cudaSuccess) gpu::throw_cuda_error(op, "the kernel launch", status);
}

/// sum_cuda() (engine/fold/sum.h), within formulas where there is `around`: false for other than whole rows of floats.
bool sum_around(const Tensor& x, AxisMask mask, const Tensor& out, double divisor, bool accumulate,
                const detail::Around* around);

/// Space for the partial results of an op that was cut; freed in the stream's order.
template <class Acc>
Tensor allocate_partials(std::int64_t n) {
  return Tensor::allocate({n * static_cast<std::int64_t>(sizeof(Acc))}, DType::u8,
                          cuda(current_cuda_device()));
}

template <class F>
void merge_pieces(const char* op, const F& fold, const Tensor& partials, std::int64_t outputs, int pieces,
                  const Out& out) {
  using Acc = typename F::Acc;
  unsigned x = 1;
  while (x < 32 && x < outputs) x *= 2;
  const dim3 block(x, 256 / x);
  launch_after<merge_kernel<F>>(op, dim3(gpu::blocks_for(op, outputs, x)), block,
                                block.x * block.y / 2 * sizeof(Acc), fold,
                                static_cast<const Acc*>(partials.raw_data()), outputs, pieces, out);
}

/// Elements of one output that a block takes at least, and blocks that keep a GPU busy. Constants rather than
/// properties of the device, so that results do not depend on it.
inline constexpr std::int64_t kPieceElements = 16384, kManyBlocks = 2112, kFewBlocks = 512;

/// Within formulas where there is `around`, for folds with a text (F::kText).
template <class T, class F>
bool run_rows(const char* op, const F& fold, const Source<T>& x, const Plan& plan, const Out& out,
              const detail::Around* around = nullptr) {
  using Acc = typename F::Acc;
  RowLayout layout = RowLayout::strided;
  std::int64_t units = plan.count;
  std::int64_t pieces = 1, step = plan.count;
  Tensor partials;
  const auto within = [&](const char* call, std::int64_t blocks, unsigned threads, int group) {
    if constexpr (kVectors<T> && requires { F::kText; }) {
      auto* const parts = partials.defined() ? static_cast<Acc*>(partials.raw_data()) : nullptr;
      const RowsCall<T, F> all{fold, x, plan, layout, group, static_cast<int>(pieces), step, parts, out};
      return around->launch(
          op, {F::kText, call, std::string(F::kType) + detail::type_text<T>() + ">", gpu::Vector<T>::size},
          gpu::blocks_for(op, blocks, 1), threads, 1, 0, &all, sizeof all);
    } else {
      return false;
    }
  };
  if constexpr (kVectors<T>) {
    constexpr std::int64_t n = gpu::Vector<T>::size;
    if (plan.reduced[0].stride == 1 || plan.reduced[0].size == 1) {
      const auto whole = [](const Axis& axis) { return axis.size == 1 || axis.stride % n == 0; };
      if (plan.reduced[1].size == 1) {
        layout = RowLayout::contiguous;
      } else if (gpu::is_aligned(x.data, 16) && plan.reduced[0].size % n == 0 && whole(plan.reduced[1]) &&
                 whole(plan.kept[0]) && whole(plan.kept[1])) {
        layout = RowLayout::segments;
      }
    }
    if (layout != RowLayout::strided) units /= n;
    if (units <= 256) {  // at most 8 loads per thread of a warp
      int group = 1;
      while (group < 32 && group * 2 <= units) group *= 2;
      const unsigned blocks = gpu::blocks_for(op, plan.outputs, 256 / group);
      if (around)
        return within("fold::fold_groups(a.fold, fold::Loaded{a.x, load}, a.plan, a.layout, a.group, a.out)",
                      blocks, 256, group);
      gpu::launch_waiting(op, rows_kernel<T, F>, dim3(blocks), dim3(256), 0, fold, x, plan, layout, group,
                          out);
      return true;
    }
  }
  if (plan.outputs < kFewBlocks && plan.count >= 2 * kPieceElements) {
    pieces = std::min(gpu::ceil_div(plan.count, kPieceElements), gpu::ceil_div(kManyBlocks, plan.outputs));
    step = gpu::ceil_div(gpu::ceil_div(plan.count, pieces), 1024) * 1024;
    pieces = gpu::ceil_div(plan.count, step);
  }
  const unsigned threads = units <= 256 ? 32 : units <= 1024 ? 128 : units <= 4096 || pieces > 1 ? 256 : 512;
  const bool runs = !around || around->ask == detail::Around::Ask::run;
  if (pieces > 1 && runs) partials = allocate_partials<Acc>(pieces * plan.outputs);
  if (around) {
    const bool done = within(
        "fold::fold_blocks(a.fold, fold::Loaded{a.x, load}, a.plan, a.layout, a.step, a.pieces, a.partials, "
        "a.out)",
        plan.outputs * pieces, threads, 0);
    if (done && pieces > 1 && runs)
      merge_pieces(op, fold, partials, plan.outputs, static_cast<int>(pieces), out);
    return done;
  }
  gpu::launch_waiting(op, blocks_kernel<T, F>, dim3(gpu::blocks_for(op, plan.outputs * pieces, 1)),
                      dim3(threads), 0, fold, x, plan, layout, step, static_cast<int>(pieces),
                      static_cast<Acc*>(pieces > 1 ? partials.raw_data() : nullptr), out);
  if (pieces > 1) merge_pieces(op, fold, partials, plan.outputs, static_cast<int>(pieces), out);
  return true;
}

template <int N, class T, class F>
void run_columns(const char* op, const F& fold, const Source<T>& x, const Plan& plan, const Out& out) {
  using Acc = typename F::Acc;
  const std::int64_t units = plan.kept[0].size / N;
  const unsigned bx = static_cast<unsigned>(std::min<std::int64_t>(units, 32));
  unsigned by = 1;
  while (by * 2 * bx <= 256 && by < plan.count) by *= 2;
  const std::int64_t tiles = gpu::ceil_div(units, bx), blocks = plan.kept[1].size * tiles;
  std::int64_t pieces = 1, step = plan.count;
  if (blocks < kFewBlocks && plan.count > by * 32) {
    // All blocks at once, or in two goes where one would leave much of the GPU idle.
    const std::int64_t goes = blocks <= kFewBlocks / 4 ? 1 : 2;
    pieces = std::min(gpu::ceil_div(plan.count, by * 16), goes * kFewBlocks / blocks);
    step = gpu::ceil_div(plan.count, pieces);
    pieces = gpu::ceil_div(plan.count, step);
  }
  const Tensor partials = pieces > 1 ? allocate_partials<Acc>(pieces * plan.outputs) : Tensor();
  const dim3 grid(gpu::blocks_for(op, blocks, 1), static_cast<unsigned>(pieces)), block(bx, by);
  gpu::launch_waiting(op, columns_kernel<N, T, F>, grid, block,
                      bx * by / 2 * N * sizeof(Acc) + sizeof(Acc) * N, fold, x, plan, tiles, step,
                      static_cast<Acc*>(pieces > 1 ? partials.raw_data() : nullptr), out);
  if (pieces > 1) merge_pieces(op, fold, partials, plan.outputs, static_cast<int>(pieces), out);
}

/// Reduces what `plan` says of `x`, whose elements visit_elements() calls T.
template <class T, class F>
bool run_fold(const char* op, const F& fold, const Plan& plan, const Tensor& x, const Out& out,
              const detail::Around* around = nullptr) {
  if (plan.outputs == 0) return true;
  Source<T> data;
  if constexpr (std::is_integral_v<T>) {
    data = {x.raw_data(), x.dtype()};
  } else {
    data = {static_cast<const T*>(x.raw_data()), x.dtype() == DType::f16};
  }
  if (plan.count == 0 || !plan.columns()) return run_rows<T>(op, fold, data, plan, out, around);
  if (around) return false;
  if constexpr (kVectors<T>) {
    constexpr int n = gpu::Vector<T>::size;
    const auto whole = [](const Axis& axis) { return axis.size == 1 || axis.stride % n == 0; };
    if (gpu::is_aligned(data.data, 16) && plan.kept[0].size % n == 0 && plan.kept[0].size >= 8 * n &&
        whole(plan.kept[1]) && whole(plan.reduced[0]) && whole(plan.reduced[1]))
      return run_columns<n, T>(op, fold, data, plan, out), true;
  }
  run_columns<1, T>(op, fold, data, plan, out);
  return true;
}

}  // namespace ct::fold
