#include <cotangent/core/cuda/async_copy.h>
#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/device_error.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/workspace.h>
#include <cotangent/ops/loss/head/linear_cross_entropy_chunks_internal.h>
#include <cotangent/ops/engine/rows/online_softmax.cuh>

// A block per row of logits: one pass for the maximum and the sum of exponentials, a second one to write the
// gradient over the logits. Between them the row stays in shared memory, if two rows fit into a
// multiprocessor's, so that one is read while the other is written; else, and in f64, in L2.

namespace ct::loss::head {
namespace {

constexpr const char* kName = "linear_cross_entropy";
constexpr IndexSite kSite{kName, IndexKind::class_label};
constexpr int kMaxThreads = 512;

// A label out of range counts as ignored.
__device__ __forceinline__ bool counts(const Chunk& k, std::int64_t label) {
  return label != k.ignore_index && label >= 0 && label < k.classes;
}

// The vectors of a row, dealt out to the threads of its block. If the row is kept, each thread has its
// vectors in slots of shared memory that no other thread touches, blockDim.x from one to the next.
template <class T, bool kKept>
struct Row {
  using Vec = gpu::Vector<T>;
  const T* x;
  int classes;
  uint4* slots;

  // Before each(), if the row is kept.
  __device__ __forceinline__ void keep() const {
    uint4* slot = slots;
    for (int at = begin(); at < classes; at += step(), slot += blockDim.x) gpu::copy_async(slot, x + at);
    gpu::copy_async_wait();
  }
  // Calls f(vector, place of its first element) for the thread's vectors.
  template <class F>
  __device__ __forceinline__ void each(const F& f) const {
    if constexpr (kKept) {
      const uint4* slot = slots;
      for (int at = begin(); at < classes; at += step(), slot += blockDim.x) f(Vec{*slot}, at);
    } else {
      constexpr int kUnroll = 4;  // so many reads are under way at once
      for (int first = begin(); first < classes; first += kUnroll * step()) {
        Vec vectors[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
          if (first + u * step() < classes) vectors[u] = Vec::load(x + first + u * step());
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
          if (first + u * step() < classes) f(vectors[u], first + u * step());
      }
    }
  }

 private:
  static __device__ __forceinline__ int begin() { return static_cast<int>(threadIdx.x) * Vec::size; }
  static __device__ __forceinline__ int step() { return static_cast<int>(blockDim.x) * Vec::size; }
};

// A thread's view of a row. Behind the row's end, as far as the last vector reaches, it reads -inf.
template <bool kSmooth, class T, bool kKept>
__device__ __forceinline__ rows::OnlineSoftmax<compute_t<T>, kSmooth> look(const Row<T, kKept>& row) {
  using C = compute_t<T>;
  using Vec = gpu::Vector<T>;
  rows::OnlineSoftmax<C, kSmooth> seen;
  row.each([&](const Vec& v, int at) {
    C values[Vec::size];
    v.to_compute(values);
#pragma unroll
    for (int q = 0; q < Vec::size; ++q)
      if (at + q >= row.classes) values[q] = -INFINITY;
    seen.add(values);
    if constexpr (kSmooth) {
#pragma unroll
      for (int q = 0; q < Vec::size; ++q)
        if (at + q < row.classes) seen.add_factor(C(1), values[q]);
    }
  });
  return seen;
}

// Dynamic shared memory, if the rows are kept: a slot for each of a thread's vectors.
template <class T, bool kSmooth, bool kKept>
__global__ void __launch_bounds__(kMaxThreads)
    rows_kernel(Chunk k, Step step, ct::detail::DeviceErrors* errors, IndexSite site) {
  gpu::wait_for_previous();
  using C = compute_t<T>;
  using Vec = gpu::Vector<T>;
  extern __shared__ uint4 kept[];
  __shared__ C shared_log_sum, shared_rest;
  const long long r = blockIdx.x;
  const int classes = static_cast<int>(k.classes);
  T* x = static_cast<T*>(k.logits) + r * k.pitch;
  C* log_sums = static_cast<C*>(k.log_sums);
  C* rests = static_cast<C*>(k.rests);
  C* losses = static_cast<C*>(k.losses);
  const std::int64_t label = k.labels[r];
  if (!counts(k, label)) {
    if (step != Step::gradient && threadIdx.x == 0) {
      if (label != k.ignore_index) gpu::report_index_error(errors, site, label, k.classes);
      log_sums[r] = rests[r] = losses[r] = C(0);
    }
    if (step == Step::losses) return;
    const Vec zeros = Vec::filled(gpu::from_compute<T>(C(0)));
    for (int c = threadIdx.x * Vec::size; c < classes; c += blockDim.x * Vec::size) zeros.store(x + c);
    return;
  }

  const Row<T, kKept> row{x, classes, kept + threadIdx.x};
  if constexpr (kKept) row.keep();
  const C smoothing = static_cast<C>(k.smoothing);
  C log_sum, rest;
  if (step == Step::gradient) {
    log_sum = log_sums[r], rest = rests[r];
  } else {
    const C hit = gpu::to_compute(x[label]);
    rows::OnlineSoftmax<C, kSmooth> seen = look<kSmooth>(row);
    seen = gpu::block_combine(seen, {}, gpu::Plus{});
    if (threadIdx.x == 0) {
      const C log_exps = log(seen.exps);
      C loss = log_exps - (hit - seen.max);
      if constexpr (kSmooth)
        loss = (C(1) - smoothing) * loss + smoothing * (log_exps + seen.dot / static_cast<C>(classes));
      losses[r] = loss;
      loss::exact_sum(seen.max, log_exps, shared_log_sum, shared_rest);
      log_sums[r] = shared_log_sum, rests[r] = shared_rest;
    }
    if (step == Step::losses) return;
    __syncthreads();
    log_sum = shared_log_sum, rest = shared_rest;
  }

  C scale = 1;
  if (k.cotangent)
    scale = static_cast<const C*>(k.cotangent)[k.each ? r : 0] / *static_cast<const C*>(k.divisor);
  const C share = smoothing / static_cast<C>(classes), factor = gpu::exp_fast(-rest);
  const int hot = static_cast<int>(label);
  row.each([&](const Vec& v, int at) {
    C d[Vec::size];
    v.to_compute(d);
#pragma unroll
    for (int q = 0; q < Vec::size; ++q) {
      d[q] = factor * gpu::exp_fast(d[q] - log_sum);
      if constexpr (kSmooth) d[q] -= share;
      if (at + q == hot) d[q] -= C(1) - smoothing;
      d[q] *= scale;
    }
    Vec::from_compute(d).store(x + at);
  });
}

template <class T>
void launch_rows(Step step, const Chunk& chunk) {
  // Few classes: few threads, each with some vectors.
  const std::int64_t vectors = gpu::ceil_div(chunk.classes, gpu::Vector<T>::size);
  int threads = 32;
  while (threads < kMaxThreads && threads * 4 < vectors) threads *= 2;
  const auto go = [&](auto kernel, std::int64_t bytes) {
    gpu::launch_waiting(kName, kernel, gpu::blocks_for(kName, chunk.rows, 1), threads,
                        static_cast<std::size_t>(bytes), chunk, step, gpu::index_errors(), kSite);
  };
  const std::int64_t bytes = gpu::ceil_div(vectors, threads) * threads * 16;
  const DeviceProperties& device = cuda_properties(current_cuda_device());
  const auto beside =
      static_cast<std::int64_t>(device.shared_bytes_per_sm / 2) - 4096;  // what else a block has
  const bool kept = step == Step::both && bytes <= beside &&
                    bytes <= static_cast<std::int64_t>(device.shared_bytes_per_block) - 4096;
  if constexpr (gpu::kFastShapes<T>)
    if (kept)
      return chunk.smoothing > 0 ? go(rows_kernel<T, true, true>, bytes)
                                 : go(rows_kernel<T, false, true>, bytes);
  chunk.smoothing > 0 ? go(rows_kernel<T, true, false>, 0) : go(rows_kernel<T, false, false>, 0);
}

void run_rows(Step step, const Chunk& chunk) {
  CT_CHECK(chunk.classes <= (std::int64_t{1} << 30), ShapeError, kName, "weight has ", chunk.classes,
           " classes; at most 2^30 are possible on a GPU");
  visit_floating(kName, chunk.dtype, [&]<class T>(TypeTag<T>) { launch_rows<T>(step, chunk); });
}

// One block: the losses of all rows are few numbers.
template <class C>
__global__ void __launch_bounds__(kMaxThreads)
    reduce_kernel(Chunk all, bool mean, bool each, C* divisor, C* out) {
  gpu::wait_for_previous();
  const C* losses = static_cast<const C*>(all.losses);
  C total = 0, count = 0;
  for (long long r = threadIdx.x; r < all.rows; r += blockDim.x) {
    total += losses[r];
    count += counts(all, all.labels[r]) ? C(1) : C(0);
    if (each) out[r] = losses[r];
  }
  total = gpu::block_sum(total);
  count = gpu::block_sum(count);
  if (threadIdx.x != 0) return;
  *divisor = mean ? count : C(1);
  if (!each) *out = mean ? total / count : total;
}

void reduce(const Chunk& all, Reduction reduction, void* divisor, const Tensor& out) {
  visit_floating(kName, all.dtype, [&]<class T>(TypeTag<T>) {
    using C = compute_t<T>;
    gpu::launch_waiting(kName, reduce_kernel<C>, 1, kMaxThreads, 0, all, reduction == Reduction::mean,
                        reduction == Reduction::none, static_cast<C*>(divisor), out.data<C>());
  });
}

template <class From, class To>
constexpr int kScaled = 16 / static_cast<int>(sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));

// `vectors` of kScaled elements, and the rest one by one.
template <class From, class To, class C = compute_t<From>>
__global__ void __launch_bounds__(256) scale_kernel(const From* from, To* to, long long n, long long vectors,
                                                    bool accumulate, const C* cotangent, const C* divisor) {
  gpu::wait_for_previous();
  constexpr int kSize = kScaled<From, To>;
  C factor = 1;
  if (cotangent) factor = *divisor == C(0) ? C(0) : *cotangent / *divisor;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (long long i = first * kSize; i < vectors * kSize; i += step * kSize) {
    C values[kSize], old[kSize] = {};
    gpu::Vector<From, kSize>::load(from + i).to_compute(values);
    if (accumulate) gpu::Vector<To, kSize>::load(to + i).to_compute(old);
#pragma unroll
    for (int q = 0; q < kSize; ++q) values[q] = old[q] + values[q] * factor;
    gpu::Vector<To, kSize>::from_compute(values).store(to + i);
  }
  for (long long i = vectors * kSize + first; i < n; i += step)
    to[i] = gpu::from_compute<To>((accumulate ? static_cast<C>(gpu::to_compute(to[i])) : C(0)) +
                                  static_cast<C>(gpu::to_compute(from[i])) * factor);
}

void scale(const Tensor& from, const Tensor& to, bool accumulate, DType dtype, const void* cotangent,
           const void* divisor) {
  const long long n = from.numel();
  visit_floating(kName, dtype, [&]<class T>(TypeTag<T>) {
    using C = compute_t<T>;
    const auto run = [&]<class From, class To>(TypeTag<From>, TypeTag<To>) {
      constexpr int kSize = kScaled<From, To>;
      const bool aligned = gpu::is_aligned(from.raw_data(), 16) && gpu::is_aligned(to.raw_data(), 16);
      gpu::launch_waiting(kName, scale_kernel<From, To>,
                          gpu::grid_stride_blocks(n, 256 * (aligned ? kSize : 1)), 256, 0,
                          static_cast<const From*>(from.raw_data()), static_cast<To*>(to.raw_data()), n,
                          aligned ? n / kSize : 0, accumulate, static_cast<const C*>(cotangent),
                          static_cast<const C*>(divisor));
    };
    if (from.dtype() == dtype)
      run(TypeTag<T>{}, TypeTag<T>{});
    else if (to.dtype() == dtype)
      run(TypeTag<C>{}, TypeTag<T>{});
    else
      run(TypeTag<C>{}, TypeTag<C>{});
  });
}

// Labels are checked where they are read: in the rows.
void check(const loss::Labels&, std::int64_t, std::int64_t, std::int64_t) {}

// 512 MiB of logits: the weight's gradient, which is read and written once per chunk, is then small beside
// the products.
const DeviceSteps kDevice{gemm::cuda_backend, std::int64_t{1} << 29, check, run_rows, reduce, scale};

void forward_cuda(const Forward& f) { forward(f, kDevice); }
void scale_cuda(const Backward& b) { scale(b, kDevice); }
void recompute_cuda(const Backward& b) { recompute(b, kDevice); }

}  // namespace
}  // namespace ct::loss::head

CT_KERNELS(cuda, linear_cross_entropy,
           {"linear_cross_entropy", loss::head::forward_cuda, loss::head::scale_cuda},
           {"linear_cross_entropy_recompute", loss::head::forward_cuda, loss::head::recompute_cuda})
