#include <algorithm>
#include <cmath>
#include <vector>

#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/nn/optim/multi_tensor_internal.h>

// GPU: the table of tensors travels as a kernel parameter (4 KB fit), so that one launch updates up to 40
// tensors. A block takes one chunk; four neighbouring elements per thread move as one load where the
// addresses allow it. Every byte is touched once: Adam reads four arrays and writes three.

namespace ct::optim::internal {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxEntries = 40;

struct Table {
  Entry entries[kMaxEntries];
  int first[kMaxEntries + 1];  // number of chunks before each entry
  int size;
  int chunk;  // elements; a multiple of 4 * kThreads
};
static_assert(sizeof(Table) < 3800, "a kernel takes 4 KB of parameters");

// The entry that a block works on, found by bisection.
__device__ __forceinline__ int entry_of(const Table& table, int block) {
  int low = 0, high = table.size;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (table.first[middle] <= block ? low : high) = middle;
  }
  return low;
}

template <class T>
using moment_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T, class Rule, int kMoments, int kWidth>
__device__ __forceinline__ void update_range(const Entry& e, std::int64_t begin, std::int64_t end,
                                             const Rule& rule) {
  using C = compute_t<T>;
  using M = moment_t<T>;
  const C a = static_cast<C>(e.scale[0]), b = static_cast<C>(e.scale[1]);
  for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * kWidth; i < end;
       i += kThreads * kWidth) {
    T* p = static_cast<T*>(e.param) + i;
    auto params = gpu::Packed<T, kWidth>::load(p);
    const auto grads = gpu::Packed<T, kWidth>::load_streaming(static_cast<const T*>(e.grad) + i);
    gpu::Packed<M, kWidth> moments[kMoments > 0 ? kMoments : 1];
#pragma unroll
    for (int k = 0; k < kMoments; ++k)
      moments[k] = gpu::Packed<M, kWidth>::load(static_cast<const M*>(e.moments[k]) + i);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      C x = gpu::to_compute(params[j]);
      C m[3] = {};
#pragma unroll
      for (int k = 0; k < kMoments; ++k) m[k] = moments[k][j];
      rule.apply(x, static_cast<C>(gpu::to_compute(grads[j])), m, a, b);
      params[j] = gpu::from_compute<T>(x);
#pragma unroll
      for (int k = 0; k < kMoments; ++k) moments[k][j] = m[k];
    }
    params.store(p);
#pragma unroll
    for (int k = 0; k < kMoments; ++k) moments[k].store(static_cast<M*>(e.moments[k]) + i);
  }
}

__device__ __forceinline__ bool aligned(const void* p, int bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

// f64 quads are 32 bytes, which no load has: two at a time there.
template <class T>
constexpr int kQuad = std::is_same_v<T, double> ? 2 : 4;

template <class T, class Rule, int kMoments>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const __grid_constant__ Table table, const Rule rule) {
  const int index = entry_of(table, blockIdx.x);
  const Entry& e = table.entries[index];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x - table.first[index]) * table.chunk;
  const std::int64_t end = min(begin + table.chunk, e.count);
  constexpr int kWidth = kQuad<T>;
  const bool wide = aligned(e.param, sizeof(T) * kWidth) && aligned(e.grad, sizeof(T) * kWidth);
  const std::int64_t middle = wide ? begin + (end - begin) / kWidth * kWidth : begin;
  update_range<T, Rule, kMoments, kWidth>(e, begin, middle, rule);
  update_range<T, Rule, kMoments, 1>(e, middle, end, rule);
}

// Cuts `entries` into tables and calls run(table, blocks) for each; chunks are sized to fill the GPU.
template <class Run>
void for_tables(std::span<const Entry> entries, Run run) {
  std::int64_t total = 0;
  for (const Entry& e : entries) total += e.count;
  constexpr std::int64_t kUnit = 4 * kThreads;
  const std::int64_t wanted = total / (std::int64_t{gpu::multiprocessors()} * 8);
  const auto chunk = static_cast<int>(std::clamp((wanted + kUnit - 1) / kUnit * kUnit, kUnit, 64 * kUnit));
  Table table;
  const auto start = [&] { table.size = 0, table.first[0] = 0, table.chunk = chunk; };
  start();
  for (const Entry& e : entries) {
    if (e.count == 0) continue;
    table.entries[table.size] = e;
    const int chunks = static_cast<int>((e.count + chunk - 1) / chunk);
    table.first[table.size + 1] = table.first[table.size] + chunks;
    if (++table.size < kMaxEntries) continue;
    run(table, table.first[table.size]);
    start();
  }
  if (table.size > 0) run(table, table.first[table.size]);
}

std::int64_t block_total(std::span<const Entry> entries) {
  std::int64_t blocks = 0;
  for_tables(entries, [&](const Table&, int n) { blocks += n; });
  return blocks;
}

// ---- Norms
// -------------------------------------------------------------------------------------------------

enum class Sum { squares, magnitudes_power, largest };

__device__ __forceinline__ double combine(Sum kind, double a, double b) {
  if (kind != Sum::largest) return a + b;
  return a <= b || isnan(b) ? b : a;  // NaN wins
}

__device__ __forceinline__ double block_combine(Sum kind, double value) {
  __shared__ double warps[kThreads / 32];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    value = combine(kind, value, __shfl_down_sync(0xffffffffu, value, offset));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < kThreads / 32; ++w) value = combine(kind, value, warps[w]);
  return value;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    norm_kernel(const __grid_constant__ Table table, Sum kind, double power, double* partial) {
  const int index = entry_of(table, blockIdx.x);
  const Entry& e = table.entries[index];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x - table.first[index]) * table.chunk;
  const std::int64_t end = min(begin + table.chunk, e.count);
  using C = compute_t<T>;
  C sums[4] = {};
  double other = 0;
  const T* g = static_cast<const T*>(e.grad);
  const auto add = [&](int lane, T value) {
    const C x = gpu::to_compute(value);
    if (kind == Sum::squares) {
      sums[lane] += x * x;
    } else {
      const double m = fabs(static_cast<double>(x));
      other = combine(kind, other, kind == Sum::largest ? m : pow(m, power));
    }
  };
  constexpr int kWidth = kQuad<T>;
  const std::int64_t middle =
      aligned(g, sizeof(T) * kWidth) ? begin + (end - begin) / kWidth * kWidth : begin;
  for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * kWidth; i < middle;
       i += kThreads * kWidth) {
    const auto pack = gpu::Packed<T, kWidth>::load(g + i);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) add(j, pack[j]);
  }
  for (std::int64_t i = middle + threadIdx.x; i < end; i += kThreads) add(0, g[i]);
  // From here on in f64: the partial sums of many tensors differ in magnitude.
  const double mine = kind == Sum::squares ? (static_cast<double>(sums[0]) + sums[1]) +
                                                 (static_cast<double>(sums[2]) + sums[3])
                                           : other;
  const double total = block_combine(kind, mine);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

// One block adds the partial sums in a fixed order.
__global__ void __launch_bounds__(kThreads)
    finish_norm_kernel(const double* partial, int count, Sum kind, double power, float* norm) {
  double value = 0;
  for (int i = threadIdx.x; i < count; i += kThreads) value = combine(kind, value, partial[i]);
  value = block_combine(kind, value);
  if (threadIdx.x == 0)
    *norm = static_cast<float>(kind == Sum::squares   ? sqrt(value)
                               : kind == Sum::largest ? value
                                                      : pow(value, 1 / power));
}

// ---- Scaling and clamping
// -----------------------------------------------------------------------------------

template <class T, class F>
__device__ __forceinline__ void change_grads(const Table& table, F f) {
  const int index = entry_of(table, blockIdx.x);
  const Entry& e = table.entries[index];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x - table.first[index]) * table.chunk;
  const std::int64_t end = min(begin + table.chunk, e.count);
  T* g = static_cast<T*>(e.grad);
  constexpr int kWidth = kQuad<T>;
  const std::int64_t middle =
      aligned(g, sizeof(T) * kWidth) ? begin + (end - begin) / kWidth * kWidth : begin;
  for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * kWidth; i < middle;
       i += kThreads * kWidth) {
    auto pack = gpu::Packed<T, kWidth>::load(g + i);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) pack[j] = gpu::from_compute<T>(f(gpu::to_compute(pack[j])));
    pack.store(g + i);
  }
  for (std::int64_t i = middle + threadIdx.x; i < end; i += kThreads)
    g[i] = gpu::from_compute<T>(f(gpu::to_compute(g[i])));
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    scale_kernel(const __grid_constant__ Table table, const float* norm, float max_norm) {
  const float factor = max_norm / (*norm + 1e-6f);
  if (factor >= 1) return;
  change_grads<T>(table, [=](compute_t<T> x) { return x * factor; });
}

template <class T>
__global__ void __launch_bounds__(kThreads) clamp_kernel(const __grid_constant__ Table table, double limit) {
  using C = compute_t<T>;
  const C l = static_cast<C>(limit);
  change_grads<T>(table, [=](C x) { return x < -l ? -l : x > l ? l : x; });
}

template <class T, class Rule>
auto pick_update(int moments) {
  switch (moments) {
    case 0: return update_kernel<T, Rule, 0>;
    case 1: return update_kernel<T, Rule, 1>;
    case 2: return update_kernel<T, Rule, 2>;
    default: return update_kernel<T, Rule, 3>;
  }
}

}  // namespace

template <class Rule>
void apply_rule_cuda(const char* op, DType dtype, std::span<const Entry> entries, const Rule& rule) {
  visit_floating(op, dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto kernel = pick_update<T, Rule>(rule.moment_count());
    for_tables(entries, [&](const Table& table, int blocks) {
      gpu::launch(op, kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, table, rule);
    });
  });
}
template void apply_rule_cuda(const char*, DType, std::span<const Entry>, const SgdRule&);
template void apply_rule_cuda(const char*, DType, std::span<const Entry>, const AdamRule&);

Tensor norm_cuda(const char* op, std::span<const Entry> entries, DType dtype, NormKind kind) {
  const Device device = cuda(current_cuda_device());
  const std::int64_t blocks = block_total(entries);
  const Tensor partial = Tensor::allocate({blocks}, DType::f64, device);
  const Tensor norm = Tensor::allocate({}, DType::f32, device);
  const Sum sum = kind.p == 2 ? Sum::squares : std::isinf(kind.p) ? Sum::largest : Sum::magnitudes_power;
  double* next = partial.data<double>();
  visit_floating(op, dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_tables(entries, [&](const Table& table, int n) {
      gpu::launch(op, norm_kernel<T>, dim3(static_cast<unsigned>(n)), dim3(kThreads), 0, table, sum, kind.p,
                  next);
      next += n;
    });
  });
  gpu::launch(op, finish_norm_kernel, dim3(1), dim3(kThreads), 0, partial.data<double>(),
              static_cast<int>(blocks), sum, kind.p, norm.data<float>());
  return norm;
}

void scale_cuda(const char* op, std::span<const Entry> entries, DType dtype, const Tensor& norm,
                double max_norm) {
  visit_floating(op, dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_tables(entries, [&](const Table& table, int n) {
      gpu::launch(op, scale_kernel<T>, dim3(static_cast<unsigned>(n)), dim3(kThreads), 0, table,
                  norm.data<float>(), max_norm);
    });
  });
}

void clamp_cuda(const char* op, std::span<const Entry> entries, DType dtype, double limit) {
  visit_floating(op, dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_tables(entries, [&](const Table& table, int n) {
      gpu::launch(op, clamp_kernel<T>, dim3(static_cast<unsigned>(n)), dim3(kThreads), 0, table, limit);
    });
  });
}

}  // namespace ct::optim::internal
