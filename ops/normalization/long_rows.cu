#include <algorithm>

#include <cotangent/ops/normalization/long_rows.cuh>

// What long_rows.cuh declares. Of layer_norm and rms_norm it is the mean that tells which: it may be null.

namespace ct::norms {
namespace {

constexpr int kLongThreads = 512;
constexpr int kSumRows = 16;  // threads that share a column in the sums over rows

// out (+)= the sum of `count` partial sums per column; blockIdx.y chooses dweight or dbias. blockDim = (32,
// kSumRows).
template <class T>
__global__ void finish_kernel(const compute_t<T>* first, const compute_t<T>* second, int count, int columns,
                              T* first_out, T* second_out, bool first_adds, bool second_adds) {
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

// One block per row; blockDim.y = 1.
template <class T, class L>
__global__ void __launch_bounds__(kLongThreads) long_forward(const ForwardRows<T, L> a) {
  using C = compute_t<T>;
  const long long row = blockIdx.x, offset = row * a.columns;
  const T* x = a.x + offset;
  C mean = 0;
  if (a.adds()) {
    for (int c = threadIdx.x; c < a.columns; c += blockDim.x)
      a.sum[offset + c] = gpu::from_compute<T>(gpu::to_compute(x[c]) + a.addend(offset + c));
    x = a.sum + offset;  // every thread reads back what it wrote
  }
  if (a.mean) {
    const C pivot = first_of_row(a, offset);
#pragma unroll 4
    for (int c = threadIdx.x; c < a.columns; c += blockDim.x) mean += gpu::to_compute(x[c]) - pivot;
    mean = pivot + gpu::block_sum(mean) / static_cast<C>(a.columns);
  }
  const auto squares = [&](C scale) {
    C square = 0;
#pragma unroll 4
    for (int c = threadIdx.x; c < a.columns; c += blockDim.x) {
      const C d = (gpu::to_compute(x[c]) - mean) * scale;
      square += d * d;
    }
    return gpu::block_sum(square);
  };
  C square = squares(1);
  const C columns = static_cast<C>(a.columns);
  C rstd = C(1) / sqrt(square / columns + a.eps);
  if (const C scale = rescue_scale(square, columns, a.eps); scale != 1) [[unlikely]] {
    square = squares(scale);
    rstd = scale / sqrt(square / columns + a.eps * scale * scale);
  }
  if (threadIdx.x == 0) {
    if (a.mean) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
#pragma unroll 4
  for (int c = threadIdx.x; c < a.columns; c += blockDim.x) {
    C w[1], b[1];
    load_parameter<T, 1>(a.weight, c, 1, w);
    load_parameter<T, 1>(a.bias, c, 0, b);
    a.y[offset + c] = gpu::from_compute<L>((gpu::to_compute(x[c]) - mean) * rstd * w[0] + b[0]);
  }
}

template <class T, class L>
__global__ void __launch_bounds__(kLongThreads) long_backward(const BackwardRows<T, L> a) {
  using C = compute_t<T>;
  const long long row = blockIdx.x, offset = row * a.columns;
  const C mean = a.mean ? a.mean[row] : C(0), rstd = a.scale(row, a.mean);
  C sum = 0, dot = 0, w[1];
#pragma unroll 4
  for (int c = threadIdx.x; c < a.columns; c += blockDim.x) {
    load_parameter<T, 1>(a.weight, c, 1, w);
    const C scaled = gpu::to_compute(a.g[offset + c]) * w[0];
    sum += scaled;
    dot += scaled * (gpu::to_compute(a.x[offset + c]) - mean) * rstd;
  }
  const C average = a.mean ? gpu::block_sum(sum) / static_cast<C>(a.columns) : C(0);
  const C slope = gpu::block_sum(dot) / static_cast<C>(a.columns);
  for (int c = threadIdx.x; c < a.columns; c += blockDim.x) {
    load_parameter<T, 1>(a.weight, c, 1, w);
    const C hat = (gpu::to_compute(a.x[offset + c]) - mean) * rstd;
    const C more = a.extra ? gpu::to_compute(a.extra[offset + c]) : C(0);
    const C scaled = gpu::to_compute(a.g[offset + c]) * w[0];
    const C dx = (scaled - average - hat * slope) * rstd + more;
    if (!a.kMixed || a.dx) a.dx[offset + c] = gpu::from_compute<T>(dx);
    if (a.kMixed && a.low_dx) a.low_dx[offset + c] = gpu::from_compute<L>(dx);
  }
}

// The partial sums of 32 columns over the rows of slab blockIdx.y. blockDim = (32, kSumRows).
template <class T, class L>
__global__ void long_sums(const BackwardRows<T, L> a) {
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

// Short rows get few threads.
unsigned threads_for(int columns) {
  return static_cast<unsigned>(std::min<std::int64_t>(kLongThreads, gpu::ceil_div(columns, 32) * 32));
}

}  // namespace

template <class T, class L>
void run_long_forward(const char* op, const ForwardRows<T, L>& a) {
  gpu::launch(op, long_forward<T, L>, gpu::blocks_for(op, a.rows, 1), threads_for(a.columns), 0, a);
}

template <class T, class L>
void run_long_backward(const char* op, const BackwardRows<T, L>& a, unsigned slabs) {
  if (a.wants_dx())
    gpu::launch(op, long_backward<T, L>, gpu::blocks_for(op, a.rows, 1), threads_for(a.columns), 0, a);
  if (a.dweight || a.dbias)
    gpu::launch(op, long_sums<T, L>, dim3(static_cast<unsigned>(gpu::ceil_div(a.columns, 32)), slabs),
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
    gpu::launch(call.op, finish_kernel<T>, dim3(static_cast<unsigned>(gpu::ceil_div(columns, 32)), 2),
                dim3(32, kSumRows), 0, static_cast<const C*>(dweight), static_cast<const C*>(dbias),
                static_cast<int>(count), columns, pointer<T>(call.dweight), pointer<T>(call.dbias),
                call.accumulate_weight, call.accumulate_bias);
  });
}

}  // namespace ct::norms
