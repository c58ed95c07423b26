#include <cmath>
#include <cstdint>
#include <type_traits>

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/update/rules_internal.h>
#include <cotangent/ops/update/many_cuda.cuh>

// Norms of gradients, their scaling and clamping, and the search for infinities. Sums are taken in f64 from
// the first addition on: the kernels wait for memory, not for arithmetic, and squares neither overflow nor
// vanish.

namespace ct::update {
namespace {

using namespace update::many;

struct Gradient {
  void* grad;
  std::int64_t count;
};
using GradTable = Table<Gradient, 192>;
static_assert(sizeof(GradTable) < 4000, "more than a kernel's parameters hold");

// Calls run(table, blocks) for tables of gradients of one dtype.
template <class Run>
void for_gradients(std::span<const Entry> entries, Run run) {
  for_tables<GradTable>(
      entries, chunk_size(element_total(entries)),
      [](const Entry& e) {
        return Gradient{e.grad, e.count};
      },
      run);
}

enum class Sum { squares, magnitudes, powers, largest };

__device__ __forceinline__ double term(Sum kind, double x, double power) {
  switch (kind) {
    case Sum::squares: return x * x;
    case Sum::powers: return pow(fabs(x), power);
    default: return fabs(x);
  }
}

__device__ __forceinline__ double combine(Sum kind, double a, double b) {
  if (kind != Sum::largest) return a + b;
  return b <= a || isnan(a) ? a : b;  // NaN wins
}

__device__ __forceinline__ double block_combine(Sum kind, double value) {
  return gpu::block_combine(value, 0.0, [kind](double a, double b) { return combine(kind, a, b); });
}

// Calls visit(address, values) for all vectors of the block's piece of the gradients, which at its end, and where they are
// not aligned, are single elements. `f16` as for gpu::unpack().
template <class T, class Visit>
__device__ __forceinline__ void each_vector(const GradTable& table, bool f16, const Visit& visit) {
  const Piece piece = piece_of(table, blockIdx.x);
  T* g = static_cast<T*>(table.rows[piece.row].grad);
  const auto range = [&]<int N>(std::integral_constant<int, N>, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * N; i < end; i += kThreads * N) {
      compute_t<T> values[N];
      gpu::unpack(gpu::Vector<T, N>::load(g + i), f16, values);
      visit(g + i, values);
    }
  };
  constexpr int kWide = kWidth<T>;
  const bool wide = aligned_to(g, sizeof(T) * kWide);
  const std::int64_t middle = wide ? piece.begin + (piece.end - piece.begin) / kWide * kWide : piece.begin;
  range(std::integral_constant<int, kWide>{}, piece.begin, middle);
  range(std::integral_constant<int, 1>{}, middle, piece.end);
}

// The partial sums, added in a fixed order by one block.
__device__ __forceinline__ void finish_norm(const double* partial, std::int64_t count, Sum kind, double power,
                                            void* norm, bool f64) {
  double value = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads)
    value = combine(kind, value, __ldcg(partial + i));
  value = block_combine(kind, value);
  if (threadIdx.x != 0) return;
  if (kind == Sum::squares) value = sqrt(value);
  if (kind == Sum::powers) value = pow(value, 1 / power);
  if (f64) {
    *static_cast<double*>(norm) = value;
  } else {
    *static_cast<float*>(norm) = static_cast<float>(value);
  }
}

// Partial sums of all launches of a call, and what becomes of them. `done` counts blocks, so that the last one finishes; null: a
// launch behind them does.
struct Norm {
  double* partial;
  std::int64_t count;
  unsigned* done;
  void* out;
  bool f64;
};

// Each block writes the sum of its piece: of squares, or of what `other` says.
template <class T, bool kSquares>
__global__ void __launch_bounds__(kThreads)
    norm_kernel(const __grid_constant__ GradTable table, bool f16, Sum other, double power, const Norm norm,
                double* partial) {
  gpu::wait_for_previous();
  const Sum kind = kSquares ? Sum::squares : other;
  double sums[kWidth<T>] = {};
  each_vector<T>(table, f16, [&]<int N>(T*, const compute_t<T>(&values)[N]) {
#pragma unroll
    for (int j = 0; j < N; ++j)
      sums[j] = combine(kind, sums[j], term(kind, static_cast<double>(values[j]), power));
  });
  double mine = sums[0];
#pragma unroll
  for (int j = 1; j < kWidth<T>; ++j) mine = combine(kind, mine, sums[j]);
  const double total = block_combine(kind, mine);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
  if (norm.done && is_last(norm.done, static_cast<unsigned>(norm.count)))
    finish_norm(norm.partial, norm.count, kind, power, norm.out, norm.f64);
}

__global__ void __launch_bounds__(kThreads) finish_norm_kernel(const Norm norm, Sum kind, double power) {
  gpu::wait_for_previous();
  finish_norm(norm.partial, norm.count, kind, power, norm.out, norm.f64);
}

template <class T, class F>
__device__ __forceinline__ void change_grads(const GradTable& table, bool f16, F f) {
  each_vector<T>(table, f16, [&]<int N>(T* at, compute_t<T>(&values)[N]) {
#pragma unroll
    for (int j = 0; j < N; ++j) values[j] = f(values[j]);
    gpu::pack<T>(values, f16).store(at);
  });
}

// Scales by the norm, unless there is none, and clamps to a limit, which may be infinite.
template <class T>
__global__ void __launch_bounds__(kThreads)
    clip_kernel(const __grid_constant__ GradTable table, bool f16, const void* norm, bool f64,
                double max_norm, double limit) {
  using C = compute_t<T>;
  gpu::wait_for_previous();
  const double factor = clip_factor(max_norm, norm, f64);
  if (norm && factor == 1) return;
  const C scale = static_cast<C>(factor), l = static_cast<C>(limit);
  change_grads<T>(table, f16, [=](C x) {
    x *= scale;
    return x < -l ? -l : x > l ? l : x;
  });
}

// Any number of threads may find one: they write the same number.
template <class T>
__global__ void __launch_bounds__(kThreads)
    unscale_kernel(const __grid_constant__ GradTable table, bool f16, const float* factor, float* found_inf) {
  gpu::wait_for_previous();
  using C = compute_t<T>;
  bool bad = false;
  if (factor && *factor != 1) {
    const C f = *factor;
    change_grads<T>(table, f16, [&](C x) {
      bad |= !isfinite(x);
      return x * f;
    });
  } else {
    each_vector<T>(table, f16, [&]<int N>(T*, const C(&values)[N]) {
#pragma unroll
      for (int j = 0; j < N; ++j) bad |= !isfinite(values[j]);
    });
  }
  if (bad) *found_inf = 1;
}

__global__ void update_scale_kernel(float* numbers, const float* found_inf, const ScaleRule rule) {
  gpu::wait_for_previous();
  rule.update(numbers, *found_inf != 0);
}

// Calls run(T(), entries, whether T stands for f16) for each dtype of tensors.
template <class Run>
void visit_gradients(std::span<const Tensor* const> tensors, Run run) {
  by_dtype(tensors, [&](DType dtype, std::span<const Entry> entries) {
    gpu::visit_widths(dtype, [&](auto tag) { run(tag, entries, dtype == DType::f16); });
  });
}

void clip(const Forward& call, std::span<const Tensor* const> grads, const Tensor& norm, double max_norm,
          double limit) {
  visit_gradients(grads, [&](auto tag, std::span<const Entry> entries, bool f16) {
    for_gradients(entries, [&](const GradTable& table, int n) {
      gpu::launch_waiting(call.op.name, clip_kernel<typename decltype(tag)::type>,
                          dim3(static_cast<unsigned>(n)), dim3(kThreads), 0, table, f16,
                          norm.defined() ? norm.raw_data() : nullptr,
                          norm.defined() && norm.dtype() == DType::f64, max_norm, limit);
    });
  });
}

void clip_to_norm_cuda(const Forward& call) {
  clip(call, call.inputs.subspan(1), call.in(0), call.attrs<ClipAttrs>().max_norm, INFINITY);
}
void clip_values_cuda(const Forward& call) { clip(call, call.inputs, {}, 0, call.attrs<ClampAttrs>().limit); }

void norm_cuda(const Forward& call) {
  const double p = call.attrs<NormAttrs>().p;
  const Tensor& out = call.out();
  const Sum kind = p == 2          ? Sum::squares
                   : p == 1        ? Sum::magnitudes
                   : std::isinf(p) ? Sum::largest
                                   : Sum::powers;
  std::int64_t blocks = 0;
  by_dtype(call.inputs, [&](DType, std::span<const Entry> entries) {
    const int chunk = chunk_size(element_total(entries));
    for (const Entry& e : entries) blocks += (e.count + chunk - 1) / chunk;
  });
  const Tensor partial = Tensor::allocate({blocks}, DType::f64, out.device());
  double* next = static_cast<double*>(partial.raw_data());
  unsigned* const done = call.outputs.size() > 1 ? static_cast<unsigned*>(call.out(1).raw_data()) : nullptr;
  const Norm norm{next, blocks, done, out.raw_data(), out.dtype() == DType::f64};
  visit_gradients(call.inputs, [&](auto tag, std::span<const Entry> entries, bool f16) {
    using T = typename decltype(tag)::type;
    const auto kernel = kind == Sum::squares ? norm_kernel<T, true> : norm_kernel<T, false>;
    for_gradients(entries, [&](const GradTable& table, int n) {
      gpu::launch_waiting(call.op.name, kernel, dim3(static_cast<unsigned>(n)), dim3(kThreads), 0, table, f16,
                          kind, p, norm, next);
      next += n;
    });
  });
  if (!norm.done || blocks == 0)
    gpu::launch_waiting(call.op.name, finish_norm_kernel, dim3(1), dim3(kThreads), 0, norm, kind, p);
}

void unscale_cuda(const Forward& call) {
  float* const found_inf = call.in(0).data<float>();
  const float* const factor = optional_number(call, 1);
  visit_gradients(call.inputs.subspan(2), [&](auto tag, std::span<const Entry> entries, bool f16) {
    for_gradients(entries, [&](const GradTable& table, int n) {
      gpu::launch_waiting(call.op.name, unscale_kernel<typename decltype(tag)::type>,
                          dim3(static_cast<unsigned>(n)), dim3(kThreads), 0, table, f16, factor, found_inf);
    });
  });
}

void update_scale_cuda(const Forward& call) {
  gpu::launch_waiting(call.op.name, update_scale_kernel, dim3(1), dim3(1), 0, call.in(0).data<float>(),
                      static_cast<const float*>(call.in(1).raw_data()), ScaleRule{call.attrs<ScaleAttrs>()});
}

}  // namespace
}  // namespace ct::update

CT_KERNELS(cuda, gradients, forward_only("total_norm", update::norm_cuda),
           forward_only("clip_to_norm", update::clip_to_norm_cuda),
           forward_only("clip_values", update::clip_values_cuda))
CT_KERNELS(cuda, loss_scale, forward_only("unscale", update::unscale_cuda),
           forward_only("update_scale", update::update_scale_cuda))
