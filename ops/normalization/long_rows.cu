#include <cotangent/ops/normalization/long_rows.cuh>

// Kernels that long_rows.cuh declares. A null mean tells rms_norm from layer_norm.

namespace ct::normalization {
namespace {

constexpr int kLongThreads = 32 * rows::LoopShare::kMostWarps;
constexpr int kSumRows = 16;  // threads that share a column in the sums over rows

// out (+)= the sum of `count` partial sums per column; blockIdx.y chooses dweight or dbias. blockDim = (32,
// kSumRows).
template <class T>
__global__ void finish_norms_kernel(const compute_t<T>* first, const compute_t<T>* second, int count,
                                    int columns, T* first_out, T* second_out, bool first_adds,
                                    bool second_adds) {
  gpu::wait_for_previous();
  using C = compute_t<T>;
  __shared__ C shared[kSumRows][33];
  const C* from = blockIdx.y ? second : first;
  T* out = blockIdx.y ? second_out : first_out;
  const int column = static_cast<int>(blockIdx.x) * 32 + threadIdx.x;
  C sum = 0;
  if (from && column < columns) {
#pragma unroll 4
    for (int i = threadIdx.y; i < count; i += kSumRows)
      sum += from[static_cast<long long>(i) * columns + column];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || !from || column >= columns) return;
#pragma unroll
  for (int i = 1; i < kSumRows; ++i) sum += shared[i][threadIdx.x];
  if (blockIdx.y ? second_adds : first_adds) sum += gpu::to_compute(out[column]);
  out[column] = gpu::from_compute<T>(sum);
}

template <class T, class L>
__global__ void __launch_bounds__(kLongThreads) long_forward(const ForwardRows<T, L> a) {
  gpu::wait_for_previous();
  using C = compute_t<T>;
  const rows::LoopShare share({a.rows, a.columns, 1});
  const T* x = a.x;
  C mean = 0;
  if (a.adds()) {
    share.each([&](long long, long long at) {
      a.sum[at] = gpu::from_compute<T>(gpu::to_compute(x[at]) + a.addend(at));
    });
    x = a.sum;  // every thread reads back what it wrote
  }
  if (a.mean) {
    const C pivot = first_of_row(a, share.start, rows::FromMemory{});
    share.each([&](long long, long long at) { mean += gpu::to_compute(x[at]) - pivot; });
    mean = pivot + share.combine(mean, gpu::Plus{}) / static_cast<C>(a.columns);
  }
  const C rstd = rstd_of(static_cast<C>(a.columns), a.eps, [&](C scale, int) {
    C square = 0;
    share.each([&](long long, long long at) {
      const C d = (gpu::to_compute(x[at]) - mean) * scale;
      square += d * d;
    });
    return share.combine(square, gpu::Plus{});
  });
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    if (a.mean) a.mean[blockIdx.x] = mean;
    a.rstd[blockIdx.x] = rstd;
  }
  share.each([&](long long c, long long at) {
    C w[1], b[1];
    load_parameter<T, 1>(a.weight, c, 1, w);
    load_parameter<T, 1>(a.bias, c, 0, b);
    a.y[at] = gpu::from_compute<L>((gpu::to_compute(x[at]) - mean) * rstd * w[0] + b[0]);
  });
}

template <class T, class L>
__global__ void __launch_bounds__(kLongThreads) long_backward(const BackwardRows<T, L> a) {
  gpu::wait_for_previous();
  using C = compute_t<T>;
  const rows::LoopShare share({a.rows, a.columns, 1});
  const C mean = a.mean ? a.mean[blockIdx.x] : C(0), rstd = a.scale(blockIdx.x, a.mean);
  C sum = 0, dot = 0, w[1];
  share.each([&](long long c, long long at) {
    load_parameter<T, 1>(a.weight, c, 1, w);
    const C scaled = gpu::to_compute(a.g[at]) * w[0];
    sum += scaled;
    dot += scaled * (gpu::to_compute(a.x[at]) - mean) * rstd;
  });
  const C average = a.mean ? share.combine(sum, gpu::Plus{}) / static_cast<C>(a.columns) : C(0);
  const C slope = share.combine(dot, gpu::Plus{}) / static_cast<C>(a.columns);
  share.each([&](long long c, long long at) {
    load_parameter<T, 1>(a.weight, c, 1, w);
    const C hat = (gpu::to_compute(a.x[at]) - mean) * rstd;
    const C more = a.extra ? gpu::to_compute(a.extra[at]) : C(0);
    const C scaled = gpu::to_compute(a.g[at]) * w[0];
    const C dx = (scaled - average - hat * slope) * rstd + more;
    if (!a.kMixed || a.dx) a.dx[at] = gpu::from_compute<T>(dx);
    if (a.kMixed && a.low_dx) a.low_dx[at] = gpu::from_compute<L>(dx);
  });
}

// The partial sums of 32 columns over the rows of slab blockIdx.y. blockDim = (32, kSumRows).
template <class T, class L>
__global__ void long_sums(const BackwardRows<T, L> a) {
  gpu::wait_for_previous();
  using C = compute_t<T>;
  __shared__ C shared[2][kSumRows][33];
  const int column = static_cast<int>(blockIdx.x) * 32 + threadIdx.x;
  C dw = 0, db = 0;
  const long long step = static_cast<long long>(gridDim.y) * kSumRows;
  for (long long row = static_cast<long long>(blockIdx.y) * kSumRows + threadIdx.y;
       row < a.rows && column < a.columns; row += step) {
    const C g = gpu::to_compute(a.g[row * a.columns + column]);
    const C x = gpu::to_compute(a.x[row * a.columns + column]);
    dw += g * (x - (a.mean ? a.mean[row] : C(0))) * a.scale(row, a.mean);
    db += g;
  }
  shared[0][threadIdx.y][threadIdx.x] = dw;
  shared[1][threadIdx.y][threadIdx.x] = db;
  __syncthreads();
  if (threadIdx.y > 1 || column >= a.columns) return;
  C* to = threadIdx.y ? a.dbias : a.dweight;
  if (!to) return;
  C sum = 0;
#pragma unroll
  for (int i = 0; i < kSumRows; ++i) sum += shared[threadIdx.y][i][threadIdx.x];
  to[static_cast<long long>(blockIdx.y) * a.columns + column] = sum;
}

}  // namespace

template <class T, class L>
void run_long_forward(const char* op, const ForwardRows<T, L>& a) {
  rows::launch_loop(op, long_forward<T, L>, {a.rows, a.columns, 1}, a);
}

template <class T, class L>
void run_long_backward(const char* op, const BackwardRows<T, L>& a, unsigned slabs) {
  if (a.wants_dx()) rows::launch_loop(op, long_backward<T, L>, {a.rows, a.columns, 1}, a);
  if (a.dweight || a.dbias)
    gpu::launch_waiting(op, long_sums<T, L>, dim3(static_cast<unsigned>(gpu::ceil_div(a.columns, 32)), slabs),
                        dim3(32, kSumRows), 0, a);
}

#define CT_LONG_ROWS(T, L)                                               \
  template void run_long_forward(const char*, const ForwardRows<T, L>&); \
  template void run_long_backward(const char*, const BackwardRows<T, L>&, unsigned)
CT_LONG_ROWS(float, float);
CT_LONG_ROWS(float, Half);
CT_LONG_ROWS(float, BFloat16);
CT_LONG_ROWS(Half, Half);
CT_LONG_ROWS(BFloat16, BFloat16);
CT_LONG_ROWS(double, double);
#undef CT_LONG_ROWS

void finish_sums(const BackwardCall& call, const void* dweight, const void* dbias, unsigned count) {
  const auto columns = static_cast<int>(call.layout.columns);
  visit_floating(call.op, call.x.dtype(), [&]<class T>(TypeTag<T>) {
    using C = compute_t<T>;
    gpu::launch_waiting(call.op, finish_norms_kernel<T>,
                        dim3(static_cast<unsigned>(gpu::ceil_div(columns, 32)), 2), dim3(32, kSumRows), 0,
                        static_cast<const C*>(dweight), static_cast<const C*>(dbias), static_cast<int>(count),
                        columns, pointer<T>(call.dweight), pointer<T>(call.dbias), call.accumulate_weight,
                        call.accumulate_bias);
  });
}

}  // namespace ct::normalization
