#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>

#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/divider.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/store_element.h>
#include <cotangent/ops/engine/map/binary.h>
#include <cotangent/ops/engine/map/map.h>
#include <cotangent/ops/engine/map/lane.cuh>

// Elementwise kernels on CUDA. For .cu files of rooms. A formula (engine/map/formulas.h) becomes
//
//  * a vector kernel for each of f32, f16 and bf16: a thread handles several chunks of 16 bytes, all loads
//    issued before the first use. It serves everything whose rows are whole, aligned chunks: plain tensors,
//    scalar operands, row broadcast (a bias), column broadcast, slices;
//  * an element kernel per compute type (f32, f64, i64) for all else: any strides, any dtype, 4 elements in
//    flight per thread, neighbouring threads on neighbouring elements. 8-byte types lose nothing by it, and
//    comparisons, whose results are bytes, little. The formulas of a table share it: which one is meant is known at run
//    time, and all threads take the same branch, once for their 4 elements. Cold formulas have no other.
//
// The choice of a kernel and its arguments is made once for all formulas, in engine/map/map_cuda.cu.

namespace ct::map {

inline constexpr int kBlockThreads = 256;
inline constexpr int kElementUnroll = 4;
constexpr int vector_unroll(int arguments) { return arguments == 1 ? 4 : arguments <= 3 ? 2 : 1; }

using gpu::Divider;

/// A parameter in both forms that kernels may want.
struct Parameter {
  double f;
  std::int64_t i;
  template <class C>
  __device__ __forceinline__ C get() const {
    if constexpr (std::is_integral_v<C>)
      return i;
    else
      return static_cast<C>(f);
  }
};

struct KernelArgs {
  const void* in[kMaxInputs];  // null: 1, for an optional input
  void* out[kMaxOutputs];      // of several, those that are not wanted are null
  std::int64_t count;          // chunks (vector kernel) or elements (element kernel)
  int per_thread;              // of them for each thread, at most the kernel's unroll
  int rank;
  Divider sizes[kMaxRank];                       // of the axes; the last one counted in chunks
  std::int64_t strides[kMaxOperands][kMaxRank];  // outputs, then inputs; in elements per step
  std::uint8_t dtypes[kMaxOperands];
  Parameter p, q;
  Draw draw;
  std::int64_t first;  // the number of the first element in the draw
  int row;             // of the table (element kernel)
};
using Kernel = void (*)(const KernelArgs);

/// The kernels of a formula; null where it has none.
struct CudaKernels {
  Kernel vector_f32 = nullptr, vector_f16 = nullptr, vector_bf16 = nullptr;
  Kernel element_f32 = nullptr, element_f64 = nullptr, element_i64 = nullptr;
  int unroll = 1;  // of the vector kernels
  int row = 0;     // of the table that the element kernels are for
};

/// Runs a formula over `out` with inputs broadcast to its shape, like run_cpu().
void run_cuda(const char* op, const CudaKernels& kernels, Tensor& out, std::span<const Tensor* const> inputs,
              const Parameters& parameters);
/// The same for several outputs of one shape, some of which may be null, and for formulas that draw; with a draw all
/// operands must be contiguous.
void run_cuda(const char* op, const CudaKernels& kernels, std::span<const Tensor* const> outputs,
              std::span<const Tensor* const> inputs, const Parameters& parameters,
              const Draw* draw = nullptr);

// ---- Device code -----------------------------------------------------------------------------------------

// Offsets of all operands for one step (chunk or element) of a space of several axes.
template <int kOperands>
__device__ __forceinline__ void locate(const KernelArgs& a, std::uint32_t step,
                                       std::int64_t (&offset)[kOperands]) {
#pragma unroll
  for (int k = 0; k < kOperands; ++k) offset[k] = 0;
  for (int d = a.rank - 1; d > 0; --d) {
    const std::uint32_t quotient = a.sizes[d].divide(step);
    const std::int64_t index = step - quotient * a.sizes[d].divisor;
#pragma unroll
    for (int k = 0; k < kOperands; ++k) offset[k] += index * a.strides[k][d];
    step = quotient;
  }
#pragma unroll
  for (int k = 0; k < kOperands; ++k) offset[k] += static_cast<std::int64_t>(step) * a.strides[k][0];
}

// Argument i of a formula.
template <class F, class X, std::size_t i, class C>
__device__ __forceinline__ auto argument(C x) {
  if constexpr (i < F::kInputs)
    return X(x);
  else
    return LaneMask{x != C(0)};
}

// Result m of a formula.
template <class Y>
__device__ __forceinline__ auto result(const Y& y, int m) {
  if constexpr (requires { y.of; })
    return y.of[m];
  else
    return y;
}

template <class F, class T, std::size_t... I>
__device__ __forceinline__ void vector_body(const KernelArgs& a, std::index_sequence<I...>) {
  using C = compute_t<T>;
  using X = Lane<C, sizeof(T) == 2>;
  constexpr int N = F::kInputs, M = F::kOutputs;
  constexpr int V = 16 / static_cast<int>(sizeof(T));
  constexpr int U = vector_unroll(kArguments<F>);
  constexpr unsigned kMasks = F::kMasks;
  const X p(a.p.template get<C>()), q(a.q.template get<C>());
  [[maybe_unused]] const GeneratorState draw = F::kDraws ? a.draw.state.now() : GeneratorState{};

  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * (kBlockThreads * a.per_thread) + threadIdx.x;
  gpu::Vector<T, V> raw[U][N];
  gpu::Vector<bool, V> mask[U][kMasks ? N : 1];
  std::int64_t offset[U][M + N];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    const std::int64_t chunk = first + u * kBlockThreads;
    if (u >= a.per_thread || chunk >= a.count) break;
    if (a.rank == 1) {
#pragma unroll
      for (int k = 0; k < M + N; ++k) offset[u][k] = chunk * a.strides[k][0];
    } else {
      locate<M + N>(a, static_cast<std::uint32_t>(chunk), offset[u]);
    }
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const std::int64_t at = offset[u][M + k];
      const bool same = a.strides[M + k][a.rank - 1] == 0;  // one number for the whole row
      if ((F::kOptional >> k & 1u) && !a.in[k]) {
        raw[u][k] = gpu::Vector<T, V>::filled(gpu::from_compute<T>(C(1)));
      } else if (kMasks >> k & 1u) {
        const bool* from = static_cast<const bool*>(a.in[k]) + at;
        mask[u][kMasks ? k : 0] =
            same ? gpu::Vector<bool, V>::filled(*from) : gpu::Vector<bool, V>::load(from);
      } else {
        const T* from = static_cast<const T*>(a.in[k]) + at;
        if (same)
          raw[u][k] = gpu::Vector<T, V>::filled(*from);
        else if (F::kStreaming)
          raw[u][k] = gpu::Vector<T, V>::load_streaming(from);
        else
          raw[u][k] = gpu::Vector<T, V>::load(from);
      }
    }
  }
#pragma unroll
  for (int u = 0; u < U; ++u) {
    if (u >= a.per_thread || first + u * kBlockThreads >= a.count) break;
    C x[kArguments<F>][V];
    if constexpr (F::kDraws) {
      const std::int64_t chunk = first + u * kBlockThreads;
#pragma unroll
      for (int j = 0; j < V; j += 4) {
        const PhiloxBlock block =
            philox_block(draw, static_cast<std::uint64_t>((a.first + chunk * V + j) / 4));
#pragma unroll
        for (int word = 0; word < 4; ++word)
          x[N][j + word] = block.word[word] < a.draw.threshold ? C(1) : C(0);
      }
    }
#pragma unroll
    for (int k = 0; k < N; ++k) {
      if (kMasks >> k & 1u) {
#pragma unroll
        for (int j = 0; j < V; ++j) x[k][j] = mask[u][kMasks ? k : 0][j] ? C(1) : C(0);
      } else {
        raw[u][k].unpack(x[k]);
      }
    }
    C y[M][V];
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const auto value = F::eval(argument<F, X, I>(x[I][j])..., p, q);
#pragma unroll
      for (int m = 0; m < M; ++m) y[m][j] = result(value, m).v;
    }
#pragma unroll
    for (int m = 0; m < M; ++m)
      if (M == 1 || a.out[m])
        gpu::Vector<T, V>::from_compute(y[m]).store(static_cast<T*>(a.out[m]) + offset[u][m]);
  }
}

template <class F, class T>
__global__ void __launch_bounds__(kBlockThreads) vector_kernel(const KernelArgs a) {
  gpu::wait_for_previous();
  vector_body<F, T>(a, std::make_index_sequence<kArguments<F>>{});
}

// Calls f(TypeTag<T>{}) with the type of elements that a kernel which computes in C reads or writes.
template <class C, class F>
__device__ __forceinline__ auto visit_element(std::uint8_t dtype, const F& f) {
  const auto is = [&](DType t) { return dtype == static_cast<std::uint8_t>(t); };
  if (is(DType::boolean)) return f(TypeTag<bool>{});
  if constexpr (std::is_same_v<C, float>) {
    if (is(DType::f16)) return f(TypeTag<Half>{});
    if (is(DType::bf16)) return f(TypeTag<BFloat16>{});
  } else if constexpr (std::is_integral_v<C>) {
    if (is(DType::i32)) return f(TypeTag<std::int32_t>{});
    if (is(DType::u8)) return f(TypeTag<std::uint8_t>{});
  }
  return f(TypeTag<C>{});
}
template <class C>
__device__ __forceinline__ C load_element(const void* from, std::int64_t at, std::uint8_t dtype) {
  return visit_element<C>(
      dtype, [&]<class T>(TypeTag<T>) -> C { return gpu::to_compute(static_cast<const T*>(from)[at]); });
}
template <class C>
__device__ __forceinline__ void store_element(void* to, std::int64_t at, std::uint8_t dtype, C value) {
  visit_element<C>(dtype,
                   [&]<class T>(TypeTag<T>) { static_cast<T*>(to)[at] = gpu::from_compute<T>(value); });
}

/// A formula in a table.
template <class Formula, bool integers = false, bool floats = true>
struct Row {
  using F = Formula;
  static constexpr bool kIntegers = integers, kFloats = floats;
};
/// Formulas of as many outputs that share their element kernels; one that draws is alone. The first argument, which is
/// void, is what the comma of a table's first line stands behind.
template <class, class... Rows>
struct Table {
  static constexpr int kInputs = std::max({Rows::F::kInputs...}), kOutputs = std::max({Rows::F::kOutputs...});
  static constexpr bool kDraws = (Rows::F::kDraws || ...);

  template <class F>
  static constexpr int find() {
    int row = 0;
    (void)((std::is_same_v<F, typename Rows::F> || (++row, false)) || ...);
    return row;
  }
  /// Calls use(F()) for the formula of a row, which is one of `count` from `begin` on. They are halved: a chain of
  /// comparisons with each would take longer than the formula.
  template <class C, int begin = 0, int count = sizeof...(Rows), class Use>
  static __device__ __forceinline__ void visit(int row, const Use& use) {
    using R = std::tuple_element_t<begin, std::tuple<Rows...>>;
    if constexpr (count > 1) {
      row < begin + count / 2 ? visit<C, begin, count / 2>(row, use)
                              : visit<C, begin + count / 2, count - count / 2>(row, use);
    } else if constexpr (std::is_integral_v<C> ? R::kIntegers : R::kFloats) {
      use(typename R::F());
    }
  }
};

template <class C, class F, std::size_t... I>
__device__ __forceinline__ void evaluate(F, const C* x, Lane<C> p, Lane<C> q, C* y,
                                         std::index_sequence<I...>) {
  const auto value = F::eval(argument<F, Lane<C>, I>(x[I])..., p, q);
#pragma unroll
  for (int m = 0; m < F::kOutputs; ++m) y[m] = static_cast<C>(result(value, m).v);
}

// Five blocks to a multiprocessor, so that the table's longest formula does not cost the others their registers.
template <class Rows, class C>
__global__ void __launch_bounds__(kBlockThreads, sizeof(C) == 4 ? 5 : 1) element_kernel(const KernelArgs a) {
  gpu::wait_for_previous();
  constexpr int N = Rows::kInputs, M = Rows::kOutputs, U = kElementUnroll;
  const Lane<C> p(a.p.template get<C>()), q(a.q.template get<C>());
  [[maybe_unused]] const GeneratorState draw = Rows::kDraws ? a.draw.state.now() : GeneratorState{};
  const std::uint32_t count = static_cast<std::uint32_t>(a.count);
  const std::uint32_t first = blockIdx.x * (kBlockThreads * a.per_thread) + threadIdx.x;
  const auto is_past = [&](int u) { return u >= a.per_thread || first + u * kBlockThreads >= count; };
  C x[U][N + Rows::kDraws], y[U][M];
  std::int64_t out[U][M];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    if (is_past(u)) break;
    const std::uint32_t i = first + u * kBlockThreads;
    std::int64_t offset[M + N];
    locate<M + N>(a, i, offset);
#pragma unroll
    for (int m = 0; m < M; ++m) out[u][m] = offset[m];
#pragma unroll
    for (int k = 0; k < N; ++k)  // null: an optional input, or one more than the formula has
      x[u][k] = a.in[k] ? load_element<C>(a.in[k], offset[M + k], a.dtypes[M + k]) : C(1);
    if constexpr (Rows::kDraws) {
      const std::uint32_t word = philox_word(draw, static_cast<std::uint64_t>(a.first + i));
      x[u][N] = word < a.draw.threshold ? C(1) : C(0);
    }
  }
  Rows::template visit<C>(a.row, [&]<class F>(F formula) {
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if (is_past(u)) break;
      evaluate(formula, x[u], p, q, y[u], std::make_index_sequence<kArguments<F>>{});
    }
  });
#pragma unroll
  for (int u = 0; u < U; ++u) {
    if (is_past(u)) break;
#pragma unroll
    for (int m = 0; m < M; ++m)
      if (M == 1 || a.out[m]) store_element<C>(a.out[m], out[u][m], a.dtypes[m], y[u][m]);
  }
}

// ---- Host side of a room ---------------------------------------------------------------------------------

/// `predicate` says that F gives masks. The table says so, because nvcc's host and device passes must pick
/// the same kernels, and the host's can't see what a device function returns. `Rows` is a Table that has F.
template <class F, bool floats, bool integers, bool predicate = false,
          class Rows = Table<void, Row<F, integers>>>
CudaKernels value_kernels() {
  CudaKernels k;
  k.unroll = vector_unroll(kArguments<F>);
  k.row = Rows::template find<F>();
  if constexpr (floats) {
    if constexpr (!predicate && !F::kCold) {
      k.vector_f32 = vector_kernel<F, float>;
      k.vector_f16 = vector_kernel<F, Half>;
      k.vector_bf16 = vector_kernel<F, BFloat16>;
    }
    k.element_f32 = element_kernel<Rows, float>;
    k.element_f64 = element_kernel<Rows, double>;
  }
  if constexpr (integers) k.element_i64 = element_kernel<Rows, std::int64_t>;
  return k;
}

/// The forward kernel of an op from the formula name_y.
template <class F, bool floats, bool integers, bool predicate = false,
          class Rows = Table<void, Row<F, integers>>>
void forward_cuda(const Forward& f) {
  const Tensor* outputs[F::kOutputs];
  for (int m = 0; m < F::kOutputs; ++m) outputs[m] = &f.out(m);
  run_cuda(f.op.name, value_kernels<F, floats, integers, predicate, Rows>(), outputs, f.inputs,
           parameters_of(f.attrs_view));
}
/// The kernels of a formula on floats alone, as a gradient is.
template <class F, class Rows = Table<void, Row<F>>>
CudaKernels gradient_kernels() {
  return value_kernels<F, true, false, false, Rows>();
}
/// The backward kernel of an op with one input, from name_dx.
template <class F, class Rows>
void unary_backward_cuda(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor* inputs[2] = {&b.grad()};
  if constexpr (F::kSaved == Saved::x) inputs[1] = &b.in(0);
  if constexpr (F::kSaved == Saved::y) inputs[1] = &b.out();
  run_cuda(b.op.name, gradient_kernels<F, Rows>(), b.grad_in(0), {inputs, F::kInputs},
           parameters_of(b.attrs_view));
}

/// The backward kernel of an op with two or three inputs, from name_da, name_db, ...
template <class Rows, class... D>
void operands_backward_cuda(const Backward& b) {
  const auto gradient = [&]<class F>(F, int i) {
    // The call is a template, so that there are no kernels where g itself is passed on.
    operand_gradient<F>(b, i, [&](auto& out, auto inputs) {
      run_cuda(b.op.name, gradient_kernels<F, Rows>(), out, inputs, parameters_of(b.attrs_view));
    });
  };
  int i = 0;
  (gradient(D(), i++), ...);
}

/// The backward kernel of an op from one formula for all gradients (joint_gradients).
template <class F>
void joint_backward_cuda(const Backward& b) {
  joint_gradients<F>(b, b.grad(), b.grad().shape(), [&](auto outputs, auto inputs) {
    run_cuda(b.op.name, gradient_kernels<F>(), outputs, inputs, parameters_of(b.attrs_view));
  });
}

}  // namespace ct::map
