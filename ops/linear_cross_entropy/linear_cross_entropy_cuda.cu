#include <type_traits>

#include <cotangent/core/cuda/blas.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/device_error.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/block_reduce_cuda.h>
#include <cotangent/ops/linear_cross_entropy/chunks_internal.h>
#include <cotangent/ops/online_softmax_cuda.h>

// A block per row of logits: one pass for the maximum and the sum of exponentials, a second one, over what
// the first has left in L2, to write the gradient over the logits.

namespace ct::linear_cross_entropy_kernels {
namespace {

constexpr const char* kName = "linear_cross_entropy";
constexpr IndexSite kSite{kName, IndexKind::class_label};
constexpr int kMaxThreads = 512;

// A label out of range counts as ignored.
__device__ __forceinline__ bool counts(const Chunk& k, std::int64_t label) {
  return label != k.ignore_index && label >= 0 && label < k.classes;
}

// What a thread sees of a row, `kUnroll` vectors at a time so that as many loads are in flight. Behind the
// row's end, as far as the last vector reaches, there is -inf.
template <class T, bool kSmooth>
__device__ __forceinline__ gpu::Online<compute_t<T>, kSmooth> look(const T* x, int classes,
                                                                   compute_t<T> ref) {
  using C = compute_t<T>;
  using Vec = gpu::Packed<T>;
  constexpr int kUnroll = 4;
  gpu::Online<C, kSmooth> seen;
  const int step = static_cast<int>(blockDim.x) * Vec::size;
  for (int first = static_cast<int>(threadIdx.x) * Vec::size; first < classes; first += kUnroll * step) {
    Vec vectors[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (first + u * step < classes) vectors[u] = Vec::load(x + first + u * step);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int at = first + u * step;
      if (at >= classes) break;
      C values[Vec::size];
      vectors[u].to_compute(values);
#pragma unroll
      for (int q = 0; q < Vec::size; ++q) {
        const bool inside = at + q < classes;
        if (!inside) values[q] = -INFINITY;
        if constexpr (kSmooth) {
          if (inside) seen.add_factor(C(1), values[q] - ref);
        }
      }
      seen.add(values);
    }
  }
  return seen;
}

template <class T, bool kSmooth>
__global__ void __launch_bounds__(kMaxThreads)
    rows_kernel(Chunk k, Step step, ct::detail::DeviceErrors* errors, IndexSite site) {
  using C = compute_t<T>;
  using Vec = gpu::Packed<T>;
  __shared__ C shared_log_sum;
  const long long r = blockIdx.x;
  const int classes = static_cast<int>(k.classes);
  T* x = static_cast<T*>(k.logits) + r * k.pitch;
  C* log_sums = static_cast<C*>(k.log_sums);
  C* losses = static_cast<C*>(k.losses);
  const std::int64_t label = k.labels[r];
  if (!counts(k, label)) {
    if (step != Step::gradient && threadIdx.x == 0) {
      if (label != k.ignore_index) gpu::report_index_error(errors, site, label, k.classes);
      log_sums[r] = losses[r] = C(0);
    }
    if (step == Step::losses) return;
    const Vec zeros = Vec::filled(gpu::from_compute<T>(C(0)));
    for (int c = threadIdx.x * Vec::size; c < classes; c += blockDim.x * Vec::size) zeros.store(x + c);
    return;
  }

  const C smoothing = static_cast<C>(k.smoothing);
  C log_sum;
  if (step == Step::gradient) {
    log_sum = log_sums[r];
  } else {
    const C ref = gpu::to_compute(x[0]), hit = gpu::to_compute(x[label]);
    gpu::Online<C, kSmooth> seen = look<T, kSmooth>(x, classes, ref);
    seen.merge_block();
    if (threadIdx.x == 0) {
      const C log_exps = log(seen.exps);
      C loss = log_exps - (hit - seen.max);
      if constexpr (kSmooth)
        loss = (C(1) - smoothing) * loss +
               smoothing * (((seen.max - ref) + log_exps) - seen.dot / static_cast<C>(classes));
      losses[r] = loss;
      log_sums[r] = shared_log_sum = seen.max + log_exps;
    }
    if (step == Step::losses) return;
    __syncthreads();
    log_sum = shared_log_sum;
  }

  C scale = 1;
  if (k.cotangent)
    scale = static_cast<const C*>(k.cotangent)[k.each ? r : 0] / *static_cast<const C*>(k.divisor);
  const C share = smoothing / static_cast<C>(classes);
#pragma unroll 4
  for (int c = threadIdx.x * Vec::size; c < classes; c += blockDim.x * Vec::size) {
    C d[Vec::size];
    Vec::load(x + c).to_compute(d);
#pragma unroll
    for (int q = 0; q < Vec::size; ++q) {
      d[q] = gpu::exponential(d[q] - log_sum) - share;
      if (c + q == label) d[q] -= C(1) - smoothing;
      d[q] *= scale;
    }
    Vec::from_compute(d).store(x + c);
  }
}

template <class T>
void launch_rows(Step step, const Chunk& chunk) {
  // Few classes: few threads, each with some vectors.
  const std::int64_t vectors = gpu::ceil_div(chunk.classes, gpu::Packed<T>::size);
  int threads = 32;
  while (threads < kMaxThreads && threads * 4 < vectors) threads *= 2;
  const auto kernel = chunk.smoothing > 0 ? rows_kernel<T, true> : rows_kernel<T, false>;
  gpu::launch(kName, kernel, gpu::blocks_for(kName, chunk.rows, 1), threads, 0, chunk, step,
              gpu::index_errors(), kSite);
}

void run_rows(Step step, const Chunk& chunk) {
  CT_CHECK(chunk.classes <= (std::int64_t{1} << 30), ShapeError, kName, "weight has ", chunk.classes,
           " classes; at most 2^30 are possible on a GPU");
  visit_floating(kName, chunk.dtype, [&]<class T>(TypeTag<T>) { launch_rows<T>(step, chunk); });
}

// One block: the losses of all rows are few numbers.
template <class T>
__global__ void __launch_bounds__(kMaxThreads)
    reduce_kernel(Chunk all, bool mean, bool each, compute_t<T>* divisor, compute_t<T>* out) {
  using C = compute_t<T>;
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
    gpu::launch(kName, reduce_kernel<T>, 1, kMaxThreads, 0, all, reduction == Reduction::mean,
                reduction == Reduction::none, static_cast<compute_t<T>*>(divisor), out.data<compute_t<T>>());
  });
}

template <class T, class From, class To, bool kVectors>
__global__ void __launch_bounds__(256)
    scale_kernel(const From* from, To* to, long long n, bool accumulate, const compute_t<T>* cotangent,
                 const compute_t<T>* divisor) {
  using C = compute_t<T>;
  constexpr int kSize =
      kVectors ? 16 / static_cast<int>(sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To)) : 1;
  C factor = 1;
  if (cotangent) factor = *divisor == C(0) ? C(0) : *cotangent / *divisor;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x * kSize;
  for (long long i = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * kSize; i < n;
       i += step) {
    C values[kSize], old[kSize] = {};
    gpu::Packed<From, kSize>::load(from + i).to_compute(values);
    if (accumulate) gpu::Packed<To, kSize>::load(to + i).to_compute(old);
#pragma unroll
    for (int q = 0; q < kSize; ++q) values[q] = old[q] + values[q] * factor;
    gpu::Packed<To, kSize>::from_compute(values).store(to + i);
  }
}

void scale(const Tensor& from, const Tensor& to, bool accumulate, DType dtype, const void* cotangent,
           const void* divisor) {
  const long long n = from.numel();
  visit_floating(kName, dtype, [&]<class T>(TypeTag<T>) {
    using C = compute_t<T>;
    const auto run = [&]<class From, class To>(TypeTag<From>, TypeTag<To>) {
      constexpr int kSize = 16 / static_cast<int>(sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));
      const bool vectors =
          n % kSize == 0 && gpu::is_aligned(from.raw_data(), 16) && gpu::is_aligned(to.raw_data(), 16);
      const auto kernel = vectors ? scale_kernel<T, From, To, true> : scale_kernel<T, From, To, false>;
      gpu::launch(kName, kernel, gpu::grid_stride_blocks(n, 256 * (vectors ? kSize : 1)), 256, 0,
                  static_cast<const From*>(from.raw_data()), static_cast<To*>(to.raw_data()), n, accumulate,
                  static_cast<const C*>(cotangent), static_cast<const C*>(divisor));
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
const DeviceSteps kDevice{product::cuda_backend, std::int64_t{1} << 29, check, run_rows, reduce, scale};

}  // namespace

void forward_cuda(const Forward& f) { forward(f, kDevice); }
void scale_cuda(const Backward& b) { scale(b, kDevice); }
void recompute_cuda(const Backward& b) { recompute(b, kDevice); }

}  // namespace ct::linear_cross_entropy_kernels
