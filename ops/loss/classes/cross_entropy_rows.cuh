#pragma once

#include <cotangent/core/cuda/device_error.h>
#include <cotangent/ops/loss/classes/cross_entropy_rows_internal.h>
#include <cotangent/ops/engine/rows/elements.cuh>
#include <cotangent/ops/engine/rows/online_softmax.cuh>
#include <cotangent/ops/loss/loss_cuda.cuh>

// The kernels of losses over classes on a GPU. Forward reads every logit once: the maximum and the sum of exponentials are found
// together, the sum being scaled down whenever the maximum grows. A row belongs to one thread (few classes, or rows that are
// neighbours in memory), to a warp, or to a block, and few rows are reduced to the mean in the same launch. Backward reads every
// logit once more and writes its gradient. A captured step compiles this text anew, with formulas in the place of their load and store
// (core/op/around.h).

namespace ct {
namespace {

using gpu::exp_fast;
using loss::ClassLayout;
using rows::OnlineSoftmax;

// Number of a thread's loads of a row that are under way at once.
template <class T>
constexpr int kAhead = gpu::kFastShapes<T> ? 4 : 1;

template <class T, Target kTarget>
struct Rows : CrossEntropyRows<T, kTarget> {
  using Base = CrossEntropyRows<T, kTarget>;
  using C = compute_t<T>;
  using Base::ignore_index, Base::kLabels, Base::labels, Base::layout, Base::share, Base::smoothing,
      Base::weight, Base::x;

  ct::detail::DeviceErrors* errors;
  IndexSite site;  // filled in by the host, whose address of the op's name it must hold

  // A label out of range counts as ignored; forward reports it.
  __device__ __forceinline__ bool counts(std::int64_t label) const {
    return !kLabels || (label != ignore_index && label >= 0 && label < layout.classes);
  }
  __device__ __forceinline__ std::int64_t label(long long r) const { return kLabels ? labels[r] : 0; }
  __device__ __forceinline__ C weight_of(long long c) const {
    return weight ? gpu::to_compute(weight[c]) : C(1);
  }
  // The label's element.
  template <class Load>
  __device__ __forceinline__ C hit(long long r, std::int64_t label, const Load& load) const {
    return gpu::to_compute(load.at(x, layout.start(r) + label * layout.inner));
  }
  // The factor of lse - x[c], apart from the label's: for labels it is still to be multiplied by share().
  __device__ __forceinline__ C factor(long long c, C y_c) const {
    return kLabels ? weight_of(c) : weight_of(c) * gpu::product_sum(C(1) - smoothing, y_c, share());
  }
};

// The loss of a row from what has been seen of it.
template <class T, Target kTarget, class Load>
__device__ __forceinline__ compute_t<T> finish_row(
    const Rows<T, kTarget>& rows, long long r, std::int64_t label,
    const OnlineSoftmax<compute_t<T>, kTarget != Target::label>& seen, const Load& load) {
  using C = compute_t<T>;
  const C log_exps = log(seen.exps);
  loss::exact_sum(seen.max, log_exps, rows.log_sum(r), rows.rest(r));
  C spread = 0;  // sum of factors times lse - x
  if constexpr (kTarget != Target::label) spread = gpu::product_sum(seen.mass, log_exps, seen.dot);
  if constexpr (kTarget == Target::soft) {
    rows.extra(r) = seen.mass;
    return spread;
  } else {
    C value = rows.weight_of(label) * (log_exps - (rows.hit(r, label, load) - seen.max));
    if constexpr (kTarget == Target::smoothed)
      value = gpu::product_sum(rows.share(), spread, (C(1) - rows.smoothing) * value);
    return value;
  }
}

// `size` threads share a row: 1, 32, or the whole block. The first `vectors` times 16 bytes of it are read by vectors. Losses go to
// `each`, where they are not reduced.
template <class T, Target kTarget>
struct ForwardCall {
  Rows<T, kTarget> rows;
  int size;
  long long vectors;
  bool reduce;
  T* each;
  loss::Sums<T> sums;
  const T* g = nullptr;  // with the gradient, too
  T* dx = nullptr;
};
// g is the cotangent of each row, or the one there is.
template <class T, Target kTarget>
struct BackwardCall {
  Rows<T, kTarget> rows;
  const T* g;
  bool each;
  T *dx, *dt;
};

// Logits are read again.
struct FromCache {
  static constexpr bool kMakes = false;
  template <class T, int N>
  __device__ __forceinline__ void operator()(gpu::Vector<T, N>& v, const T* from, long long i) const {
    v = gpu::Vector<T, N>::load(from + i);
  }
  template <class T>
  __device__ __forceinline__ T at(const T* from, long long i) const {
    return from[i];
  }
};

template <class T, Target kTarget, class Load>
__device__ __forceinline__ void forward_rows(const ForwardCall<T, kTarget>& call, const Load& load) {
  using C = compute_t<T>;
  using Vec = gpu::Vector<T>;
  const Rows<T, kTarget>& rows = call.rows;
  const ClassLayout& layout = rows.layout;
  const int size = call.size;
  T* const each = call.each;
  const int lane = threadIdx.x % size, groups = blockDim.x / size;
  const long long count = layout.rows(), step = static_cast<long long>(gridDim.x) * groups;
  C total = 0, weights = 0;
  for (long long r = static_cast<long long>(blockIdx.x) * groups + threadIdx.x / size; r < count; r += step) {
    const std::int64_t label = rows.label(r);
    const bool counts = rows.counts(label);
    if (!counts) {
      if (lane == 0) {
        if (label != rows.ignore_index)
          gpu::report_index_error(rows.errors, rows.site, label, layout.classes);
        if constexpr (kTarget != Target::picked) rows.log_sum(r) = rows.rest(r) = C(0);
        if (!call.reduce) each[r] = gpu::from_compute<T>(C(0));
      }
      if constexpr (!Load::kMakes) continue;
    }
    if constexpr (kTarget == Target::picked) {
      if (!counts) continue;
      const C w = rows.weight_of(label), value = -w * rows.hit(r, label, load);
      if (!call.reduce) each[r] = gpu::from_compute<T>(value);
      total += value, weights += w;
      continue;
    }
    const long long start = layout.start(r);
    OnlineSoftmax<C, kTarget != Target::label> seen;
    const auto see = [&]<int N>(const C(&values)[N], long long c, const T* t) {
      seen.add(values);
      if constexpr (kTarget != Target::label) {
#pragma unroll
        for (int q = 0; q < N; ++q)
          seen.add_factor(rows.factor(c + q, kTarget == Target::soft ? gpu::to_compute(t[q]) : C(0)),
                          values[q]);
      }
    };
    // The row's elements from `first` to `last`, as many at a time as V has.
    const auto read = [&]<class V>(V, long long first, long long last) {
      const long long step = static_cast<long long>(size) * V::size;
      const auto place = [&](long long c) { return V::size == 1 ? c * layout.inner : c; };
      const auto see_next = [&](auto count, long long c) {
        V v[count()];
#pragma unroll
        for (int u = 0; u < count(); ++u) load(v[u], rows.x, start + place(c + u * step));
#pragma unroll
        for (int u = 0; u < count(); ++u) {
          C values[V::size];
          v[u].unpack(values);
          see(values, c + u * step, rows.t + start + place(c + u * step));
        }
      };
      long long c = first + lane * V::size;
      for (; c + (kAhead<T> - 1) * step < last; c += kAhead<T> * step)
        see_next(std::integral_constant<int, kAhead<T>>(), c);
      for (; c < last; c += step) see_next(std::integral_constant<int, 1>(), c);
    };
    const long long whole = call.vectors * Vec::size;
    read(Vec(), 0, whole);
    read(gpu::Vector<T, 1>(), whole, layout.classes);
    if (!counts) continue;
    if (size == 32) seen = gpu::warp_combine(seen, gpu::Plus{});
    if (size > 32) seen = gpu::block_combine(seen, {}, gpu::Plus{});
    if (lane != 0) continue;
    const C value = finish_row(rows, r, label, seen, load);
    if (!call.reduce) each[r] = gpu::from_compute<T>(value);
    total += value;
    weights += kTarget == Target::soft ? C(1) : rows.weight_of(label);
  }
  if constexpr (kTarget == Target::smoothed) {
    if (blockIdx.x == 0) {  // the sum of all class weights, for backward
      C sum = 0;
      for (long long c = threadIdx.x; c < layout.classes; c += blockDim.x) sum += rows.weight_of(c);
      sum = gpu::block_sum(sum);
      if (threadIdx.x == 0) rows.extra(0) = sum;
    }
  }
  if (kTarget != Target::picked && blockIdx.x == 0 && threadIdx.x == 0) {
    if constexpr (kTarget == Target::label) rows.extra(0) = C(0);
    if (call.sums.divisor != 0) rows.divisor() = C(1);
  }
  if (call.reduce) call.sums.finish(total, weights);
}

template <class T, Target kTarget>
__global__ void __launch_bounds__(loss::kReduceThreads,
                                  kTarget == Target::label && gpu::kFastShapes<T> ? 3 : 2)
    cross_entropy_kernel(const __grid_constant__ ForwardCall<T, kTarget> call) {
  gpu::wait_for_previous();
  forward_rows(call, FromCache{});
}

// With p = e^(x - lse), the derivative of a row's loss by x[c] is A p[c] - b[c], less (1 - s) w[t] at the
// label, where b[c] is the factor of lse - x[c] and A the sum of all such factors. Values shared by a row's elements:
template <class T, Target kTarget>
struct RowGradient {
  using C = compute_t<T>;
  const Rows<T, kTarget>& rows;
  std::int64_t label;
  bool counts;
  C scale = 0, total = 0, hit = 0, log_sum = 0, rest = 0;  // total: A e^(-rest)

  __device__ __forceinline__ RowGradient(const Rows<T, kTarget>& rows, long long r, const T* g, bool each)
      : rows(rows), label(rows.label(r)), counts(rows.counts(label)) {
    if (!counts) return;
    scale = gpu::to_compute(g[each ? r : 0]) / rows.divisor();
    log_sum = rows.log_sum(r);
    rest = rows.rest(r);
    if constexpr (kTarget == Target::soft) {
      total = rows.extra(r);
    } else {
      hit = rows.weight_of(label);
      if constexpr (kTarget == Target::smoothed) hit *= C(1) - rows.smoothing;
      total = hit;
      if constexpr (kTarget == Target::smoothed) total = gpu::product_sum(rows.share(), rows.extra(0), total);
    }
    total *= exp_fast(-rest);
  }
  __device__ __forceinline__ C dx(long long c, C x, C t) const {
    if (!counts) return C(0);  // not 0 times something that may be infinite
    C d = 0;
    if constexpr (kTarget == Target::soft) d = -rows.factor(c, t);
    if constexpr (kTarget == Target::smoothed) d = -(rows.share() * rows.factor(c, C(0)));
    if (kTarget != Target::soft && c == label) d -= hit;
    return scale * gpu::product_sum(total, exp_fast(x - log_sum), d);
  }
  __device__ __forceinline__ C dt(long long c, C x) const {
    return scale * (C(1) - rows.smoothing) * rows.weight_of(c) * ((log_sum - x) + rest);
  }
};

// One element after the other, for any layout.
template <class T, Target kTarget, class Store>
__device__ __forceinline__ void gradient_elements(const BackwardCall<T, kTarget>& call, const Store& store) {
  using C = compute_t<T>;
  const Rows<T, kTarget>& rows = call.rows;
  const T* const g = call.g;
  T *const dx = call.dx, *const dt = call.dt;
  const bool each = call.each;
  const long long count = rows.layout.count(), step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long e = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; e < count; e += step) {
    long long c, r;
    const auto place = [&]<class Index>(Index at) {
      const Index inner = static_cast<Index>(rows.layout.inner),
                  classes = static_cast<Index>(rows.layout.classes), q = at / inner;
      c = q % classes, r = static_cast<long long>(q / classes) * inner + at % inner;
    };
    // 64-bit divisions take several times as long.
    count < (1ll << 31) ? place(static_cast<unsigned>(e)) : place(static_cast<unsigned long long>(e));
    if constexpr (kTarget == Target::picked) {  // zero but at the label
      const std::int64_t label = rows.label(r);
      C d = 0;
      if (label == c && rows.counts(label))
        d = -rows.weight_of(c) * (gpu::to_compute(g[each ? r : 0]) / (rows.stats ? rows.divisor() : C(1)));
      dx[e] = gpu::from_compute<T>(d);
      continue;
    }
    const RowGradient<T, kTarget> row(rows, r, g, each);
    const C x = gpu::to_compute(rows.x[e]);
    if (dx) {
      const C t = kTarget == Target::soft ? gpu::to_compute(rows.t[e]) : C(0);
      store(gpu::Vector<T, 1>::filled(gpu::from_compute<T>(row.dx(c, x, t))), dx, e);
    }
    if (kTarget == Target::soft && dt) dt[e] = gpu::from_compute<T>(row.dt(c, x));
  }
}

template <class T, Target kTarget>
__global__ void __launch_bounds__(loss::kThreads)
    cross_entropy_gradient_kernel(const __grid_constant__ BackwardCall<T, kTarget> call) {
  gpu::wait_for_previous();
  gradient_elements(call, rows::ToMemory{});
}

// Both, of few rows: by one block, which has written what it reads.
template <class T, Target kTarget, class Load, class Store>
__device__ __forceinline__ void rows_with_gradient(const ForwardCall<T, kTarget>& call, const Load& load,
                                                   const Store& store) {
  forward_rows(call, load);
  __syncthreads();
  gradient_elements(BackwardCall<T, kTarget>{call.rows, call.g, false, call.dx, nullptr}, store);
}
template <class T, Target kTarget>
__global__ void __launch_bounds__(loss::kReduceThreads)
    cross_entropy_with_gradient_kernel(const __grid_constant__ ForwardCall<T, kTarget> call) {
  gpu::wait_for_previous();
  rows_with_gradient(call, FromCache{}, rows::ToMemory{});
}

// A block per row, 16 bytes at a time: for rows of contiguous classes, their number a multiple of a vector.
template <class T, Target kTarget, class Store>
__device__ __forceinline__ void gradient_rows(const BackwardCall<T, kTarget>& call, const Store& store) {
  using C = compute_t<T>;
  using Vec = gpu::Vector<T>;
  const Rows<T, kTarget>& rows = call.rows;
  const T* const g = call.g;
  T *const dx = call.dx, *const dt = call.dt;
  const bool each = call.each;
  const long long classes = rows.layout.classes, count = rows.layout.rows();
  for (long long r = blockIdx.x; r < count; r += gridDim.x) {
    const RowGradient<T, kTarget> row(rows, r, g, each);
    for (long long c = static_cast<long long>(threadIdx.x) * Vec::size; c < classes;
         c += static_cast<long long>(blockDim.x) * Vec::size) {
      const long long e = r * classes + c;
      C x[Vec::size], t[Vec::size] = {}, d[Vec::size];
      Vec::load_streaming(rows.x + e).to_compute(x);
      if constexpr (kTarget == Target::soft)
        if (dx) Vec::load_streaming(rows.t + e).to_compute(t);
      if (dx) {
#pragma unroll
        for (int q = 0; q < Vec::size; ++q) d[q] = row.dx(c + q, x[q], t[q]);
        store(Vec::from_compute(d), dx, e);
      }
      if (kTarget == Target::soft && dt) {
#pragma unroll
        for (int q = 0; q < Vec::size; ++q) d[q] = row.dt(c + q, x[q]);
        Vec::from_compute(d).store(dt + e);
      }
    }
  }
}
template <class T, Target kTarget>
__global__ void __launch_bounds__(loss::kThreads)
    row_gradient_kernel(const __grid_constant__ BackwardCall<T, kTarget> call) {
  gpu::wait_for_previous();
  gradient_rows(call, rows::ToMemory{});
}

}  // namespace
}  // namespace ct
