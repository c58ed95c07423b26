#pragma once

#include <algorithm>
#include <bit>

#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/workspace.h>
#include <cotangent/core/op/around.h>
#include <cotangent/ops/normalization/normalization_internal.h>
#include <cotangent/ops/normalization/long_rows.cuh>
#include <cotangent/ops/normalization/rows.cuh>

// layer_norm and rms_norm on CUDA: every element is read once and written once. For .cu files only.
//
// - rows_forward: a row lies in the registers of 1 to 32 warps, up to four vectors of 16 bytes per thread.
// - rows_backward: the same with x and g, for 1 to 16 warps. Few, large blocks go over many rows each,
//   and every thread collects the columns' sums that dweight and dbias are made of in registers; at the end a
//   block has one pair of partial sums per column. A row's warps meet at a barrier of their own, so that the
//   rows of a block run independently of each other.
// - finish_sums: adds up the blocks' partial sums in their order.
// - long_*: rows that are too long for registers or no multiple of 16 bytes, and all of f64. They are read element by
//   element, the second time out of L2.
//
// Vectors of T have 16 bytes; those of L have as many elements.

// Texts of rescue_internal.h and rows.cuh (rows_text_cuda.cpp).
extern "C" [[gnu::visibility("hidden")]] const char cotangent_norm_rows[];

namespace ct::normalization {

inline bool vectors(const Tensor& t) { return !t.defined() || gpu::is_aligned(t.raw_data(), 16); }

/// How `units` vectors are shared out: over as few warps as hold them with `most` each.
struct Warps {
  int count, loads;

  Warps(long long units, bool power_of_two, int most = kMaxLoads) {
    const auto needed = static_cast<unsigned>(gpu::ceil_div(units, 32 * most));
    count = static_cast<int>(power_of_two ? std::bit_ceil(needed) : needed);
    loads = static_cast<int>(gpu::ceil_div(units, 32 * count));
  }
};

// Calls go(for how many vectors per thread a kernel is compiled that serves `loads`). One kernel serves rows of one and of
// two; what is rare, f16 beside f32 and a backward of 16 bits with more than two, does with fewer kernels.
template <class T, class L, bool kBackward, class Go>
void with_kernel(int loads, const Go& go) {
  if constexpr (sizeof(T) == 4 && std::is_same_v<L, Half>)
    rows::with_loads<3, 4>(loads, go);
  else if constexpr (sizeof(T) == 2 && kBackward)
    rows::with_loads<2, 4>(loads, go);
  else
    rows::with_loads<2, 3, 4>(loads, go);
}

// The text of a kernel for rows in registers.
template <class T, class L>
detail::KernelText text_of(const char* way, bool centered, int loads) {
  const auto name = [&](const char* of) { return std::string("normalization::") + of; };
  const bool forward = *way == 'f';
  return {
      cotangent_norm_rows,
      name(way) + "_rows<" + (centered ? "true, " : "false, ") + std::to_string(loads) + ">(a, load, store)",
      name(forward ? "ForwardRows<" : "BackwardRows<") + detail::type_text<T>() + ", " +
          detail::type_text<L>() + '>',
      gpu::Vector<T>::size};
}

// Within formulas where there is `around`: false where the rows do not lie in registers.
template <bool kCentered, class T, class L>
bool launch_forward(const ForwardCall& call, const detail::Around* around) {
  using C = compute_t<T>;
  const long long rows = call.layout.rows, columns = call.layout.columns;
  const ForwardRows<T, L> a{pointer<T>(call.x),
                            pointer<T>(call.residual),
                            pointer<T>(call.weight),
                            pointer<T>(call.bias),
                            pointer<L>(call.low_residual),
                            pointer<L>(call.y),
                            pointer<T>(call.sum),
                            pointer<C>(call.mean),
                            pointer<C>(call.rstd),
                            rows,
                            static_cast<int>(columns),
                            static_cast<C>(call.eps)};
  const bool packs = columns % gpu::Vector<T>::size == 0 && vectors(call.x) && vectors(call.residual) &&
                     vectors(call.low_residual) && vectors(call.weight) && vectors(call.bias) &&
                     vectors(call.y) && vectors(call.sum);
  const Warps warps(gpu::ceil_div(columns, gpu::Vector<T>::size), false);
  if (!gpu::kFastShapes<T> || !packs || warps.count > 32)
    return around ? false : (run_long_forward(call.op, a), true);
  bool done = true;
  if constexpr (gpu::kFastShapes<T>) {
    const unsigned together = warps.count == 1 ? 4 : 1, threads = static_cast<unsigned>(32 * warps.count);
    with_kernel<T, L, false>(warps.loads, [&](auto loads) {
      const unsigned blocks = gpu::blocks_for(call.op, rows, together);
      if (around)
        done = around->launch(call.op, text_of<T, L>("forward", kCentered, loads()), blocks, threads,
                              together, 0, &a, sizeof a);
      else
        gpu::launch_waiting(call.op, rows_forward<kCentered, T, L, loads()>, blocks, dim3(threads, together),
                            0, a);
    });
  }
  return done;
}

template <bool kCentered, class T, class L>
bool launch_backward(const BackwardCall& call, const detail::Around* around) {
  using C = compute_t<T>;
  const long long rows = call.layout.rows, columns = call.layout.columns;
  BackwardRows<T, L> a{pointer<T>(call.x),
                       pointer<T>(call.extra),
                       pointer<T>(call.weight),
                       pointer<L>(call.g),
                       pointer<C>(call.mean),
                       pointer<C>(call.rstd),
                       pointer<T>(call.dx),
                       pointer<L>(call.low_dx),
                       nullptr,
                       nullptr,
                       rows,
                       static_cast<int>(columns)};
  const bool packs = columns % gpu::Vector<T>::size == 0 && vectors(call.x) && vectors(call.g) &&
                     vectors(call.extra) && vectors(call.weight) && vectors(call.dx) && vectors(call.low_dx);
  const long long units = gpu::ceil_div(columns, gpu::Vector<T>::size);
  // A thread keeps two sums per element: where warps suffice it has at most 16 of them, and registers to load
  // ahead with.
  Warps warps(units, true, std::min(kMaxLoads, 16 / gpu::Vector<T>::size));
  if (warps.count > kBackwardWarps) warps = Warps(units, true);
  const bool longer = !gpu::kFastShapes<T> || !packs || warps.count > kBackwardWarps;
  const unsigned together = longer ? 1 : static_cast<unsigned>(kBackwardWarps / warps.count);
  // One block per multiprocessor; slabs of at least 64 rows for the sums over long rows.
  const auto blocks = static_cast<unsigned>(
      longer ? std::min<long long>(64, gpu::ceil_div(rows, 64))
             : std::min<long long>(gpu::multiprocessors(), gpu::ceil_div(rows, together)));
  if (around && longer) return false;
  bool done = true;
  const std::size_t each = static_cast<std::size_t>(blocks) * static_cast<std::size_t>(columns);
  const bool want_weight = call.dweight.defined(), want_bias = call.dbias.defined();
  const bool fills = !around || around->ask == detail::Around::Ask::run;
  const gpu::Workspace workspace(fills ? (want_weight + want_bias) * each * sizeof(C) : 0);
  if (want_weight) a.dweight = static_cast<C*>(workspace.data());
  if (want_bias) a.dbias = static_cast<C*>(workspace.data()) + (want_weight ? each : 0);

  if (longer) {
    run_long_backward(call.op, a, blocks);
  } else if constexpr (gpu::kFastShapes<T>) {
    with_kernel<T, L, true>(warps.loads, [&](auto loads) {
      const std::size_t memory =
          want_weight || want_bias
              ? static_cast<std::size_t>(together / 2) * 32 * static_cast<std::size_t>(warps.count) *
                    static_cast<std::size_t>(loads() * gpu::Vector<T>::size) * sizeof(C)
              : 0;
      const auto threads = static_cast<unsigned>(32 * warps.count);
      if (around)
        done = around->launch(call.op, text_of<T, L>("backward", kCentered, loads()), blocks, threads,
                              together, memory, &a, sizeof a);
      else
        gpu::launch_waiting(call.op, rows_backward<kCentered, T, L, loads()>, blocks, dim3(threads, together),
                            memory, a);
    });
  }
  if (!done || !fills) return done;
  if (want_weight || want_bias) finish_sums(call, a.dweight, a.dbias, blocks);
  return true;
}

template <bool kCentered, bool kAdd>
bool forward_cuda(const Forward& f, const detail::Around* around) {
  const ForwardCall call(f, {kCentered, kAdd});
  if (!call.work) return !around;
  CT_CHECK(call.layout.columns <= 0x7fffffff, ShapeError, call.op, "a row has ", call.layout.columns,
           " elements; on CUDA at most 2147483647 are possible");
  bool done = false;
  visit_types<kAdd>(call.op, call.x.dtype(), call.y.dtype(), [&]<class T, class L>(TypeTag<T>, TypeTag<L>) {
    done = launch_forward<kCentered, T, L>(call, around);
  });
  return done;
}

template <bool kCentered, bool kAdd>
bool backward_cuda(const Backward& b, const detail::Around* around) {
  const BackwardCall call(b, {kCentered, kAdd});
  if (!call.work) return !around;
  bool done = false;
  visit_types<kAdd>(call.op, call.x.dtype(), call.g.dtype(), [&]<class T, class L>(TypeTag<T>, TypeTag<L>) {
    done = launch_backward<kCentered, T, L>(call, around);
  });
  if (!around) call.finish(b);
  return done;
}

template <bool kCentered, bool kAdd>
void forward_cuda(const Forward& f) {
  forward_cuda<kCentered, kAdd>(f, nullptr);
}
template <bool kCentered, bool kAdd>
void backward_cuda(const Backward& b) {
  backward_cuda<kCentered, kAdd>(b, nullptr);
}
/// A norm without a residual loads one tensor, and stores one.
template <bool kCentered>
inline constexpr detail::AroundRecord kAroundRecord{true, forward_cuda<kCentered, false>,
                                                    backward_cuda<kCentered, false>};

}  // namespace ct::normalization
