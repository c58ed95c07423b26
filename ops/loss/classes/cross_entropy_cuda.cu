#include <cotangent/core/cuda/device_error.h>
#include <cotangent/ops/loss/classes/cross_entropy_rows_internal.h>
#include <cotangent/ops/engine/rows/online_softmax.cuh>
#include <cotangent/ops/loss/loss_cuda.cuh>

// Forward reads every logit once: the maximum and the sum of exponentials are found together, the sum being
// scaled down whenever the maximum grows. A row belongs to one thread (few classes, or rows that are
// neighbours in memory), to a warp, or to a block, and few rows are reduced to the mean in the
// same launch. Backward reads every logit once more and writes its gradient.

namespace ct {
namespace {

using gpu::exp_fast;
using loss::ClassLayout;
using rows::OnlineSoftmax;

constexpr long long kThreadRow = 32;    // up to so many classes a thread takes a row,
constexpr long long kWarpRow = 2048;    // up to so many a warp, beyond that a block
constexpr unsigned kRowBlocks = 16384;  // at most
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
  __device__ __forceinline__ C hit(long long r, std::int64_t label) const {
    return gpu::to_compute(x[layout.start(r) + label * layout.inner]);
  }
  // The factor of lse - x[c], apart from the label's: for labels it is still to be multiplied by share().
  __device__ __forceinline__ C factor(long long c, C y_c) const {
    return kLabels ? weight_of(c) : weight_of(c) * ((C(1) - smoothing) * y_c + share());
  }
};

// The loss of a row from what has been seen of it.
template <class T, Target kTarget>
__device__ __forceinline__ compute_t<T> finish_row(
    const Rows<T, kTarget>& rows, long long r, std::int64_t label,
    const OnlineSoftmax<compute_t<T>, kTarget != Target::label>& seen) {
  using C = compute_t<T>;
  const C log_exps = log(seen.exps);
  loss::exact_sum(seen.max, log_exps, rows.log_sum(r), rows.rest(r));
  C spread = 0;  // sum of factors times lse - x
  if constexpr (kTarget != Target::label) spread = seen.mass * log_exps + seen.dot;
  if constexpr (kTarget == Target::soft) {
    rows.extra(r) = seen.mass;
    return spread;
  } else {
    C value = rows.weight_of(label) * (log_exps - (rows.hit(r, label) - seen.max));
    if constexpr (kTarget == Target::smoothed)
      value = (C(1) - rows.smoothing) * value + rows.share() * spread;
    return value;
  }
}

// `size` threads share a row: 1, 32, or the whole block. The first `vectors` times 16 bytes of it are read by vectors.
template <class T, Target kTarget>
__device__ __forceinline__ void forward_rows(const Rows<T, kTarget>& rows, int size, long long vectors,
                                             bool reduce, T* each, const loss::Sums<T>& sums) {
  using C = compute_t<T>;
  using Vec = gpu::Vector<T>;
  const ClassLayout& layout = rows.layout;
  const int lane = threadIdx.x % size, groups = blockDim.x / size;
  const long long count = layout.rows(), step = static_cast<long long>(gridDim.x) * groups;
  C total = 0, weights = 0;
  for (long long r = static_cast<long long>(blockIdx.x) * groups + threadIdx.x / size; r < count; r += step) {
    const std::int64_t label = rows.label(r);
    if (!rows.counts(label)) {
      if (lane == 0) {
        if (label != rows.ignore_index)
          gpu::report_index_error(rows.errors, rows.site, label, layout.classes);
        if constexpr (kTarget != Target::picked) rows.log_sum(r) = rows.rest(r) = C(0);
        if (!reduce) each[r] = gpu::from_compute<T>(C(0));
      }
      continue;
    }
    if constexpr (kTarget == Target::picked) {
      const C w = rows.weight_of(label), value = -w * rows.hit(r, label);
      if (!reduce) each[r] = gpu::from_compute<T>(value);
      total += value, weights += w;
      continue;
    }
    const long long start = layout.start(r);
    const T* x = rows.x + start;
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
        for (int u = 0; u < count(); ++u) v[u] = V::load(x + place(c + u * step));
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
    const long long whole = vectors * Vec::size;
    read(Vec(), 0, whole);
    read(gpu::Vector<T, 1>(), whole, layout.classes);
    if (size == 32) seen = gpu::warp_combine(seen, gpu::Plus{});
    if (size > 32) seen = gpu::block_combine(seen, {}, gpu::Plus{});
    if (lane != 0) continue;
    const C value = finish_row<T, kTarget>(rows, r, label, seen);
    if (!reduce) each[r] = gpu::from_compute<T>(value);
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
    if (sums.divisor != 0) rows.divisor() = C(1);
  }
  if (reduce) sums.finish(total, weights);
}

template <class T, Target kTarget>
__global__ void __launch_bounds__(loss::kReduceThreads,
                                  kTarget == Target::label && gpu::kFastShapes<T> ? 3 : 2)
    cross_entropy_kernel(Rows<T, kTarget> rows, int size, long long vectors, bool reduce, T* each,
                         loss::Sums<T> sums) {
  gpu::wait_for_previous();
  forward_rows(rows, size, vectors, reduce, each, sums);
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
      if constexpr (kTarget == Target::smoothed) total += rows.share() * rows.extra(0);
    }
    total *= exp_fast(-rest);
  }
  __device__ __forceinline__ C dx(long long c, C x, C t) const {
    if (!counts) return C(0);  // not 0 times something that may be infinite
    C d = total * exp_fast(x - log_sum);
    if constexpr (kTarget == Target::soft) d -= rows.factor(c, t);
    if constexpr (kTarget == Target::smoothed) d -= rows.share() * rows.factor(c, C(0));
    if (kTarget != Target::soft && c == label) d -= hit;
    return scale * d;
  }
  __device__ __forceinline__ C dt(long long c, C x) const {
    return scale * (C(1) - rows.smoothing) * rows.weight_of(c) * ((log_sum - x) + rest);
  }
};

// One element after the other, for any layout.
template <class T, Target kTarget>
__device__ __forceinline__ void gradient_elements(const Rows<T, kTarget>& rows, const T* g, bool each, T* dx,
                                                  T* dt) {
  using C = compute_t<T>;
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
      dx[e] = gpu::from_compute<T>(row.dx(c, x, t));
    }
    if (kTarget == Target::soft && dt) dt[e] = gpu::from_compute<T>(row.dt(c, x));
  }
}

template <class T, Target kTarget>
__global__ void __launch_bounds__(loss::kThreads)
    cross_entropy_gradient_kernel(Rows<T, kTarget> rows, const T* g, bool each, T* dx, T* dt) {
  gpu::wait_for_previous();
  gradient_elements(rows, g, each, dx, dt);
}

// Both, of few rows: by one block, which has written what it reads.
template <class T, Target kTarget>
__global__ void __launch_bounds__(loss::kReduceThreads)
    cross_entropy_with_gradient_kernel(Rows<T, kTarget> rows, int size, long long vectors, loss::Sums<T> sums,
                                       const T* g, T* dx) {
  gpu::wait_for_previous();
  forward_rows(rows, size, vectors, true, static_cast<T*>(nullptr), sums);
  __syncthreads();
  gradient_elements(rows, g, false, dx, static_cast<T*>(nullptr));
}

// A block per row, 16 bytes at a time: for rows of contiguous classes, their number a multiple of a vector.
template <class T, Target kTarget>
__global__ void __launch_bounds__(loss::kThreads)
    row_gradient_kernel(Rows<T, kTarget> rows, const T* g, bool each, T* dx, T* dt) {
  using C = compute_t<T>;
  using Vec = gpu::Vector<T>;
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
        Vec::from_compute(d).store(dx + e);
      }
      if (kTarget == Target::soft && dt) {
#pragma unroll
        for (int q = 0; q < Vec::size; ++q) d[q] = row.dt(c + q, x[q]);
        Vec::from_compute(d).store(dt + e);
      }
    }
  }
}

// Whether every row of a contiguous tensor starts at a multiple of 16 bytes.
template <class T>
bool has_vectors(const T* x, const ClassLayout& layout) {
  return layout.inner == 1 && layout.classes % gpu::Vector<T>::size == 0 && gpu::is_aligned(x, 16);
}

// Threads of a row, vectors that they read of it, and blocks.
struct RowShape {
  int size;
  long long vectors;
  unsigned blocks;
};
template <class T, Target kTarget>
RowShape row_shape(const Rows<T, kTarget>& rows) {
  const ClassLayout& layout = rows.layout;
  constexpr long long threads = loss::kReduceThreads;
  constexpr bool picked = kTarget == Target::picked;
  const bool alone = picked || layout.inner > 1 || layout.classes <= kThreadRow;
  const long long size = alone ? 1 : layout.classes > kWarpRow ? threads : 32, together = threads / size;
  const long long vectors = !alone && has_vectors(rows.x, layout) ? layout.classes / gpu::Vector<T>::size : 0;
  long long blocks =
      together > 1 && layout.count() <= loss::kOneBlock ? 1 : gpu::ceil_div(layout.rows(), together);
  blocks = picked                ? loss::sum_blocks(layout.rows())
           : blocks < 1          ? 1
           : blocks > kRowBlocks ? kRowBlocks
                                 : blocks;
  return {static_cast<int>(size), vectors, static_cast<unsigned>(blocks)};
}
// Where the sum of a call goes.
template <class T, Target kTarget>
loss::Sums<T> sums_of(const Rows<T, kTarget>& rows, Reduction reduction, T* out) {
  const bool reduce = reduction != Reduction::none, mean = reduction == Reduction::mean;
  return {nullptr, compute_t<T>(mean ? 0 : 1), reduce ? out : nullptr, mean ? &rows.divisor() : nullptr};
}

template <class T, Target kTarget>
void run_forward(const Rows<T, kTarget>& rows, Reduction reduction, T* out) {
  const auto [size, vectors, blocks] = row_shape(rows);
  const bool reduce = reduction != Reduction::none;
  loss::reduce<T>(rows.site.op, blocks, reduce, sums_of(rows, reduction, out),
                  [&, size = size, vectors = vectors](unsigned grid, const loss::Sums<T>& sums) {
                    gpu::launch_waiting(rows.site.op, cross_entropy_kernel<T, kTarget>, grid,
                                        loss::kReduceThreads, 0, rows, size, vectors, reduce,
                                        reduce ? nullptr : out, sums);
                  });
}

template <class T, Target kTarget>
void run_backward(const Rows<T, kTarget>& rows, Reduction reduction, const T* g, T* dx, T* dt) {
  const ClassLayout& layout = rows.layout;
  const long long count = layout.count();
  const bool each = reduction == Reduction::none;
  if constexpr (gpu::kFastShapes<T> && kTarget != Target::picked) {
    if (layout.classes >= 1024 && has_vectors(rows.x, layout) && (!rows.t || gpu::is_aligned(rows.t, 16))) {
      const long long rows_count = layout.rows();
      const unsigned blocks = static_cast<unsigned>(rows_count < kRowBlocks ? rows_count : kRowBlocks);
      return gpu::launch(rows.site.op, row_gradient_kernel<T, kTarget>, blocks, loss::kThreads, 0, rows, g,
                         each, dx, dt);
    }
  }
  gpu::launch_waiting(rows.site.op, cross_entropy_gradient_kernel<T, kTarget>,
                      gpu::grid_stride_blocks(count, loss::kThreads), loss::kThreads, 0, rows, g, each, dx,
                      dt);
}

IndexSite site(const char* op) { return {op, IndexKind::class_label}; }

template <Target kTarget>
void forward_cuda(const Forward& f) {
  loss::classes::forward<kTarget>(
      f, [&]<class T, Target k>(const CrossEntropyRows<T, k>& rows, Reduction reduction, T* out) {
        run_forward(Rows<T, k>{rows, gpu::index_errors(), site(f.op.name)}, reduction, out);
      });
}

template <Target kTarget>
void backward_cuda(const Backward& b) {
  loss::classes::backward<kTarget>(b, [&]<class T, Target k>(const CrossEntropyRows<T, k>& rows,
                                                             Reduction reduction, const T* g, T* dx, T* dt) {
    run_backward(Rows<T, k>{rows, gpu::index_errors(), site(b.op.name)}, reduction, g, dx, dt);
  });
}

// Labels in f32, of few elements.
void with_gradient_cuda(const Forward& f) {
  constexpr long long kMost = 4096;  // beyond that one block takes longer than two launches
  const auto& attrs = f.attrs<CrossEntropyAttrs>();
  const ClassLayout layout(f.in(0).shape());
  if (f.in(0).dtype() != DType::f32 || attrs.reduction == Reduction::none || attrs.label_smoothing > 0 ||
      layout.count() > kMost)
    return cross_entropy_in_two(f);
  using Own = Rows<float, Target::label>;
  const auto optional = [](const Tensor& t) { return t.defined() ? t.data<float>() : nullptr; };
  const CrossEntropyRows<float, Target::label> operands{
      layout, loss::Labels(f.in(1)), f.in(0).data<float>(), nullptr, optional(f.in(2)),
      0,      attrs.ignore_index,    f.out(1).data<float>()};
  const Own rows{operands, gpu::index_errors(), site("cross_entropy")};
  const auto [size, vectors, blocks] = row_shape(rows);
  if (blocks != 1) return cross_entropy_in_two(f);
  gpu::launch_waiting(rows.site.op, cross_entropy_with_gradient_kernel<float, Target::label>, 1,
                      loss::kReduceThreads, 0, rows, size, vectors,
                      sums_of(rows, attrs.reduction, f.out().data<float>()), f.in(3).data<float>(),
                      f.out(2).data<float>());
}

}  // namespace
}  // namespace ct

CT_KERNELS(cuda, cross_entropy, {"cross_entropy", forward_cuda<Target::label>, backward_cuda<Target::label>},
           {"cross_entropy_soft", forward_cuda<Target::soft>, backward_cuda<Target::soft>},
           {"nll_loss", forward_cuda<Target::picked>, backward_cuda<Target::picked>},
           forward_only("cross_entropy_with_gradient", with_gradient_cuda))
