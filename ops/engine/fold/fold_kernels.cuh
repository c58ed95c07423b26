#pragma once

#include <cstdint>
#include <type_traits>

#include <cotangent/core/cuda/convert.h>
#include <cotangent/ops/engine/fold/plan.h>

// The kernels of every reduction on CUDA: four that walk a Plan and leave the arithmetic to a fold
// (engine/fold/folds_cuda.cuh).
//
//   rows_kernel     a group of 1 to 32 threads per output: many short rows
//   blocks_kernel   a block per output, or per piece of an output: long rows
//   columns_kernel  a thread per 1 to 8 neighbouring outputs: whole rows are folded into one another
//   merge_kernel    merges the pieces where an output was cut, in their order
//
// All elements are read by 16-byte loads where the layout allows it, four of them in flight per thread. f16 and bf16
// share their kernels. f64 and the integers, which share theirs whatever their width, are read one by one, by blocks and
// columns alone. There are no atomics: an output's value depends on its elements and their number alone.
//
// A fold is a small struct, passed by value, with
//     C, Acc, Second
//     Acc identity() const
//     void add<N>(Acc&, const C (&x)[N], int64 index) const    folds N neighbouring elements
//     void merge(Acc&, const Acc& other) const
//     void finish(const Acc&, C& value, Second& second) const
// Element numbers travel with the values where they matter, so merge may come in any (fixed) order.

namespace ct::fold {

template <class T>
using fold_t = std::conditional_t<std::is_same_v<T, double>, double,
                                  std::conditional_t<std::is_integral_v<T>, std::int64_t, float>>;

// ---- elements ----

/// Whether elements of type T are read by vectors, and short rows by groups of threads.
template <class T>
inline constexpr bool kVectors = gpu::kFastShapes<T> && !std::is_integral_v<T>;

/// Integers of any dtype and bools, as a pointer to i64 would have them.
struct Integral {
  using Element = std::int64_t;
  const void* data;
  DType dtype;
  std::int64_t first = 0;
  static constexpr bool f16 = false;

  __device__ Integral operator+(std::int64_t n) const { return {data, dtype, first + n}; }
  __device__ std::int64_t operator[](std::int64_t i) const {
    i += first;
    switch (dtype) {
      case DType::i64: return __ldg(static_cast<const long long*>(data) + i);
      case DType::i32: return __ldg(static_cast<const std::int32_t*>(data) + i);
      case DType::u8: return __ldg(static_cast<const std::uint8_t*>(data) + i);
      default: return __ldg(static_cast<const std::uint8_t*>(data) + i) != 0;
    }
  }
};

/// Floating elements; `f16` as for gpu::unpack().
template <class T>
struct Floating {
  using Element = T;
  const T* data;
  bool f16;

  __device__ Floating operator+(std::int64_t n) const { return {data + n, f16}; }
};

/// Source of elements that are computed as T; i64 stands for all integers and bool.
template <class T>
using Source = std::conditional_t<std::is_integral_v<T>, Integral, Floating<T>>;

template <int N, class T>
__device__ __forceinline__ gpu::Vector<T, N> load(const Floating<T>& x, std::int64_t i) {
  return gpu::Vector<T, N>::load_readonly(x.data + i);
}
template <int N>
__device__ __forceinline__ gpu::Vector<std::int64_t, N> load(const Integral& x, std::int64_t i) {
  return gpu::Vector<std::int64_t, N>::filled(x[i]);
}

/// Floating elements by way of a load (rows/elements.cuh), which goes by their number. `data` tells how they are aligned.
template <class T, class Load>
struct Loaded : Floating<T> {
  const Load& load;
  std::int64_t first = 0;

  __device__ Loaded operator+(std::int64_t n) const { return {{this->data + n, this->f16}, load, first + n}; }
};
template <int N, class T, class Load>
__device__ __forceinline__ gpu::Vector<T, N> load(const Loaded<T, Load>& x, std::int64_t i) {
  gpu::Vector<T, N> v;
  x.load(v, x.data - x.first, x.first + i);
  return v;
}

#ifndef CT_KERNEL_TEXT  // which has no code of the host
/// Calls f with the TypeTag of the element type whose kernels serve a dtype.
template <class F>
void visit_elements(DType t, F&& f) {
  if (is_floating(t)) return gpu::visit_widths(t, f);
  f(TypeTag<std::int64_t>{});
}
#endif

// ---- results ----

/// Destination of results; either pointer may be null.
struct Out {
  void* values = nullptr;
  DType dtype = DType::f32;
  bool accumulate = false;
  void* second = nullptr;
};

template <class T, class C>
__device__ void write_as(void* values, std::int64_t k, C value, bool accumulate) {
  T* y = static_cast<T*>(values) + k;
  if (accumulate) value = static_cast<C>(gpu::to_compute(*y)) + value;
  if constexpr (std::is_same_v<T, bool>) {
    *y = value != C(0);
  } else {
    *y = gpu::from_compute<T>(value);
  }
}

template <class C>
__device__ void write_value(const Out& out, std::int64_t k, C value) {
  if constexpr (std::is_same_v<C, double>) {
    if (out.dtype == DType::f64) return write_as<double>(out.values, k, value, out.accumulate);
    if (out.dtype == DType::boolean) return write_as<bool>(out.values, k, value, false);
  } else if constexpr (std::is_same_v<C, float>) {
    switch (out.dtype) {
      case DType::f32: return write_as<float>(out.values, k, value, out.accumulate);
      case DType::f16: return write_as<Half>(out.values, k, value, out.accumulate);
      case DType::bf16: return write_as<BFloat16>(out.values, k, value, out.accumulate);
      case DType::boolean: return write_as<bool>(out.values, k, value, false);
      default: return;
    }
  } else {
    switch (out.dtype) {
      case DType::i64: return write_as<std::int64_t>(out.values, k, value, out.accumulate);
      case DType::i32: return write_as<std::int32_t>(out.values, k, value, out.accumulate);
      case DType::u8: return write_as<std::uint8_t>(out.values, k, value, out.accumulate);
      case DType::boolean: return write_as<bool>(out.values, k, value, false);
      default: return;
    }
  }
}

template <class F>
__device__ void write_result(const F& fold, const typename F::Acc& acc, std::int64_t k, const Out& out) {
  typename F::C value;
  typename F::Second second;
  fold.finish(acc, value, second);
  if (out.values) write_value(out, k, value);
  if (out.second) static_cast<typename F::Second*>(out.second)[k] = second;
}

// ---- merging across threads ----

template <class Acc>
__device__ Acc shuffle_down(const Acc& acc, int delta, int width) {
  static_assert(sizeof(Acc) % 4 == 0);
  constexpr int words = sizeof(Acc) / 4;
  Acc other;
  const auto* from = reinterpret_cast<const unsigned*>(&acc);
  auto* to = reinterpret_cast<unsigned*>(&other);
#pragma unroll
  for (int i = 0; i < words; ++i) to[i] = __shfl_down_sync(0xffffffffu, from[i], delta, width);
  return other;
}

/// Merges the accumulators of `width` (a power of two, at most 32) neighbouring threads into the first one's.
template <class F>
__device__ void merge_group(const F& fold, typename F::Acc& acc, int width) {
  for (int delta = width / 2; delta > 0; delta /= 2) fold.merge(acc, shuffle_down(acc, delta, width));
}

/// The same for all threads of a block of whole warps.
template <class F>
__device__ void merge_block(const F& fold, typename F::Acc& acc) {
  using Acc = typename F::Acc;
  __shared__ alignas(16) unsigned char memory[32 * sizeof(Acc)];
  Acc* shared = reinterpret_cast<Acc*>(memory);
  merge_group(fold, acc, 32);
  const int warps = blockDim.x / 32;
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = acc;
  __syncthreads();
  if (threadIdx.x < 32) {
    acc = static_cast<int>(threadIdx.x) < warps ? shared[threadIdx.x] : fold.identity();
    merge_group(fold, acc, 32);
  }
}

// ---- one output's elements, shared among `width` threads ----

/// Layout of the elements of one output.
enum class RowLayout : int {
  contiguous,  // one run: vectors in the middle, single elements at the ragged ends
  segments,    // several runs, all aligned and of whole vectors
  strided,
};

/// Folds N elements, which are numbers `index` and on of their output.
template <class F, class T, int N>
__device__ void add(const F& fold, typename F::Acc& acc, const gpu::Vector<T, N>& pack, bool f16,
                    std::int64_t index) {
  typename F::C values[N];
  gpu::unpack(pack, f16, values);
  fold.add(acc, values, index);
}

template <class F, class X>
__device__ void fold_contiguous(const F& fold, typename F::Acc& acc, const X& x, std::int64_t begin,
                                std::int64_t end, int thread, int width) {
  using T = typename X::Element;
  using Pack = gpu::Vector<T>;
  constexpr int n = Pack::size, unroll = 4;
  const int past = static_cast<int>(reinterpret_cast<std::uintptr_t>(x.data + begin) % 16 / sizeof(T));
  const std::int64_t first = min(end, begin + (past ? n - past : 0));
  for (std::int64_t i = begin + thread; i < first; i += width) add(fold, acc, load<1>(x, i), x.f16, i);
  const std::int64_t packs = (end - first) / n;
  std::int64_t i = thread;
  for (; i + (unroll - 1) * width < packs; i += unroll * width) {
    Pack pack[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) pack[u] = load<n>(x, first + (i + u * width) * n);
#pragma unroll
    for (int u = 0; u < unroll; ++u) add(fold, acc, pack[u], x.f16, first + (i + u * width) * n);
  }
  for (; i < packs; i += width) add(fold, acc, load<n>(x, first + i * n), x.f16, first + i * n);
  for (std::int64_t j = first + packs * n + thread; j < end; j += width)
    add(fold, acc, load<1>(x, j), x.f16, j);
}

template <class F, class X>
__device__ void fold_elements(const F& fold, typename F::Acc& acc, const X& x, const Plan& plan,
                              RowLayout layout, std::int64_t begin, std::int64_t end, int thread, int width) {
  using T = typename X::Element;
  const Axis inner = plan.reduced[0], outer = plan.reduced[1];
  if constexpr (kVectors<T>) {
    if (layout == RowLayout::contiguous) return fold_contiguous(fold, acc, x, begin, end, thread, width);
    if (layout == RowLayout::segments) {
      constexpr int n = gpu::Vector<T>::size;
      const std::int64_t step = static_cast<std::int64_t>(width) * n;
#pragma unroll 2
      for (std::int64_t r = begin + thread * n; r < end; r += step)
        add(fold, acc, load<n>(x, r / inner.size * outer.stride + r % inner.size), x.f16, r);
      return;
    }
  }
#pragma unroll 1
  for (std::int64_t r = begin + thread; r < end; r += width)
    add(fold, acc, load<1>(x, plan.reduced_offset(r)), x.f16, r);
}

// ---- kernels ----

template <class F, class X>
__device__ __forceinline__ void fold_groups(const F& fold, const X& x, const Plan& plan, RowLayout layout,
                                            int group, const Out& out) {
  const int thread = static_cast<int>(threadIdx.x) % group;
  const std::int64_t k =
      static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / group) + static_cast<int>(threadIdx.x) / group;
  typename F::Acc acc = fold.identity();
  if (k < plan.outputs)
    fold_elements(fold, acc, x + plan.kept_offset(k), plan, layout, 0, plan.count, thread, group);
  merge_group(fold, acc, group);
  if (k < plan.outputs && thread == 0) write_result(fold, acc, k, out);
}
template <class T, class F>
__global__ void __launch_bounds__(256)
    rows_kernel(F fold, Source<T> x, Plan plan, RowLayout layout, int group, Out out) {
  gpu::wait_for_previous();
  fold_groups(fold, x, plan, layout, group, out);
}

template <class F, class X>
__device__ __forceinline__ void fold_blocks(const F& fold, const X& x, const Plan& plan, RowLayout layout,
                                            std::int64_t step, int pieces, typename F::Acc* partials,
                                            const Out& out) {
  const std::int64_t k = blockIdx.x / pieces, piece = blockIdx.x % pieces;
  const std::int64_t begin = piece * step, end = min(begin + step, plan.count);
  typename F::Acc acc = fold.identity();
  fold_elements(fold, acc, x + plan.kept_offset(k), plan, layout, begin, end, threadIdx.x, blockDim.x);
  merge_block(fold, acc);
  if (threadIdx.x != 0) return;
  if (pieces > 1) {
    partials[piece * plan.outputs + k] = acc;
  } else {
    write_result(fold, acc, k, out);
  }
}
template <class T, class F>
__global__ void __launch_bounds__(512)
    blocks_kernel(F fold, Source<T> x, Plan plan, RowLayout layout, std::int64_t step, int pieces,
                  typename F::Acc* partials, Out out) {
  gpu::wait_for_previous();
  fold_blocks(fold, x, plan, layout, step, pieces, partials, out);
}

/// The one argument of such kernels in a text.
template <class T, class F>
struct RowsCall {
  F fold;
  Floating<T> x;
  Plan plan;
  RowLayout layout;
  int group, pieces;
  std::int64_t step;
  typename F::Acc* partials;
  Out out;
};

#ifndef CT_KERNEL_TEXT  // where rows alone are folded
/// Merges acc[j] of all threads of equal threadIdx.x into that of threadIdx.y = 0. blockDim.y is a power
/// of 2.
template <int N, class F>
__device__ void merge_rows_of_block(const F& fold, typename F::Acc (&acc)[N]) {
  using Acc = typename F::Acc;
  extern __shared__ __align__(16) unsigned char memory[];
  Acc* shared = reinterpret_cast<Acc*>(memory);
  const int x = threadIdx.x, y = threadIdx.y;
  for (int half = blockDim.y / 2; half > 0; half /= 2) {
    if (y >= half && y < 2 * half) {
#pragma unroll
      for (int j = 0; j < N; ++j) shared[((y - half) * N + j) * blockDim.x + x] = acc[j];
    }
    __syncthreads();
    if (y < half) {
#pragma unroll
      for (int j = 0; j < N; ++j) fold.merge(acc[j], shared[(y * N + j) * blockDim.x + x]);
    }
    __syncthreads();
  }
}

template <int N, class T, class F>
__global__ void __launch_bounds__(256) columns_kernel(F fold, Source<T> x, Plan plan, std::int64_t tiles,
                                                      std::int64_t step, typename F::Acc* partials, Out out) {
  gpu::wait_for_previous();
  using Pack = gpu::Vector<T, N>;
  constexpr int unroll = 4;
  const std::int64_t outer = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const std::int64_t column = (tile * blockDim.x + threadIdx.x) * N;
  const std::int64_t begin = blockIdx.y * step, end = min(begin + step, plan.count);
  typename F::Acc acc[N];
#pragma unroll
  for (int j = 0; j < N; ++j) acc[j] = fold.identity();
  const bool inside = column < plan.kept[0].size;
  if (inside) {
    const auto from = x + (outer * plan.kept[1].stride + column);
    const auto row = [&](std::int64_t r) { return plan.reduced_offset(r); };
    const auto add = [&](const Pack& pack, std::int64_t r) {
      typename F::C values[N];
      gpu::unpack(pack, x.f16, values);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const typename F::C one[1] = {values[j]};
        fold.add(acc[j], one, r);
      }
    };
    const int height = blockDim.y;
    std::int64_t r = begin + threadIdx.y;
    for (; r + (unroll - 1) * height < end; r += unroll * height) {
      Pack pack[unroll];
#pragma unroll
      for (int u = 0; u < unroll; ++u) pack[u] = load<N>(from, row(r + u * height));
#pragma unroll
      for (int u = 0; u < unroll; ++u) add(pack[u], r + u * height);
    }
    for (; r < end; r += height) add(load<N>(from, row(r)), r);
  }
  merge_rows_of_block(fold, acc);
  if (!inside || threadIdx.y != 0) return;
  const std::int64_t k = outer * plan.kept[0].size + column;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if (gridDim.y > 1) {
      partials[blockIdx.y * plan.outputs + k + j] = acc[j];
    } else {
      write_result(fold, acc[j], k + j, out);
    }
  }
}

// Code for older architectures has no such wait, and must not be launched early.
#define CT_EARLY_LAUNCH_ARCH 900

template <class F>
__global__ void __launch_bounds__(256)
    merge_kernel(F fold, const typename F::Acc* partials, std::int64_t outputs, int pieces, Out out) {
#if __CUDA_ARCH__ >= CT_EARLY_LAUNCH_ARCH
  cudaGridDependencySynchronize();  // launched early: see launch_after
#endif
  const std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  using Acc = typename F::Acc;
  Acc acc[1] = {fold.identity()};
  if (k < outputs) {
    // In order, but with several loads on their way.
    constexpr int batch = sizeof(Acc) <= 8 ? 8 : 4;
    const int height = blockDim.y;
    int p = threadIdx.y;
    for (; p + (batch - 1) * height < pieces; p += batch * height) {
      Acc parts[batch];
#pragma unroll
      for (int u = 0; u < batch; ++u) parts[u] = partials[(p + u * height) * outputs + k];
#pragma unroll
      for (int u = 0; u < batch; ++u) fold.merge(acc[0], parts[u]);
    }
    for (; p < pieces; p += height) fold.merge(acc[0], partials[p * outputs + k]);
  }
  merge_rows_of_block(fold, acc);
  if (k < outputs && threadIdx.y == 0) write_result(fold, acc[0], k, out);
}
#endif

}  // namespace ct::fold
