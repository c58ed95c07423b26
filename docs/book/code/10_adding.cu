#include <cotangent/core/base/rng.h>
#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/ops/copy/copy.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/indexing/indexing.h>
#include <cotangent/ops/reduce/reduce.h>

#include <gpu.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

// Chapter 10, what of it needs a GPU: one number out of many, in five ways, and rows that several add to.

namespace {

/// Every thread adds its number to one place.
__global__ void one_place(const float* x, float* sum, long n) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(sum, x[i]);
}

/// A tree in each block, whose result is added to one place.
__global__ void block_to_place(const float* x, float* sum, long n) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const float of_block = ct::gpu::block_sum(i < n ? x[i] : 0.f);
  if (threadIdx.x == 0) atomicAdd(sum, of_block);
}

/// A tree in each block, whose result has a place of its own.
__global__ void block_apart(const float* x, float* sums, long n) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const float of_block = ct::gpu::block_sum(i < n ? x[i] : 0.f);
  if (threadIdx.x == 0) sums[blockIdx.x] = of_block;
}

/// The same by blocks that stay and walk: a thread adds hundreds of numbers before its block makes one tree of them.
__global__ void many_each(const float* x, float* sums, long n) {
  float sum = 0;
#pragma unroll 4
  for (long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += static_cast<long>(gridDim.x) * blockDim.x)
    sum += x[i];
  sum = ct::gpu::block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// Number of different results in ten runs.
template <class Run>
int different(Run&& run) {
  std::vector<ct::Tensor> seen;
  for (int i = 0; i < 10; ++i) {
    const ct::Tensor result = run().to(ct::cpu);
    bool known = false;
    for (const ct::Tensor& before : seen) known = known || before.equal(result);
    if (!known) seen.push_back(result);
  }
  return static_cast<int>(seen.size());
}

void sums() {
  book::section("sums");
  const ct::Device gpu = ct::cuda(0);
  ct::manual_seed(1);
  const std::int64_t n = std::int64_t{1} << 26;
  const ct::Tensor x = ct::randn({n}, {.device = gpu});
  const double exact = ct::sum(x.to(ct::f64)).item();
  const unsigned blocks = ct::gpu::blocks_for("sums", n, 256), few = ct::gpu::grid_stride_blocks(n, 256, 8);
  ct::Tensor y = ct::empty({1}, {.device = gpu}), partial = ct::empty({blocks}, {.device = gpu});
  const float* const from = x.data<float>();
  float *const to = y.data<float>(), *const apart = partial.data<float>();

  const auto into_place = [&](auto kernel) {
    return [&, kernel] {
      CT_CUDA(cudaMemsetAsync(to, 0, 4, ct::gpu::native_stream()));
      ct::gpu::launch("sums", kernel, blocks, 256, 0, from, to, n);
    };
  };
  const auto in_two = [&](auto kernel, unsigned grid) {
    return [&, kernel, grid] {
      ct::gpu::launch("sums", kernel, grid, 256, 0, from, apart, n);
      ct::gpu::launch("sums", many_each, 1, 1024, 0, apart, to, grid);
    };
  };
  std::printf("%lld numbers, 268 MB\n%-34s %9s %7s %11s   different results in 10 runs\n",
              static_cast<long long>(n), "", "ms", "GB/s", "off by");
  int found[5], at = 0;
  const auto row = [&](const char* name, const std::function<void()>& sum, int rounds) {
    const double ms = book::gpu_ms(sum, rounds);
    const int results = different([&] {
      sum();
      return y;
    });
    std::printf("%-34s %9.3f %7.0f %11.5f %6d\n", name, ms, 4e-6 * static_cast<double>(n) / ms,
                std::abs(y.item<float>() - exact), results);
    found[at++] = results;
  };
  row("each to one place", into_place(one_place), 3);
  row("each block to one place", into_place(block_to_place), 9);
  row("each block apart, then those", in_two(block_apart, blocks), 9);
  row("many each, few blocks, then those", in_two(many_each, few), 9);
  row(
      "ct::sum", [&] { y = ct::sum(x).reshape(1); }, 9);
  book::claim(found[0] > 1, "additions in the order of arrival have other bits in each run");
  book::claim(found[2] == 1 && found[3] == 1 && found[4] == 1,
              "an order that is fixed has the same bits in every run");
}

/// counts[v] += how often v occurs among the bytes x: added at once, or in kTables tables for each block, side by side.
template <unsigned kTables>
__global__ void count_bytes(const unsigned* x, unsigned* counts, long words) {
  constexpr unsigned kEach = kTables > 0 ? kTables : 1;
  __shared__ unsigned tables[256 * kEach];
  const unsigned thread = threadIdx.x;
  for (unsigned i = thread; i < 256 * kEach; i += 256) tables[i] = 0;
  __syncthreads();
  for (long i = static_cast<long>(blockIdx.x) * 256 + thread; i < words; i += 256L * gridDim.x)
    for (unsigned four = x[i], n = 0; n < 4; ++n, four >>= 8) {
      const unsigned value = four & 255;
      atomicAdd(kTables > 0 ? tables + value * kEach + thread % kEach : counts + value, 1u);
    }
  if constexpr (kTables > 0) {
    __syncthreads();
    unsigned sum = 0;
    for (unsigned n = 0; n < kTables; ++n) sum += tables[thread * kTables + n];
    atomicAdd(counts + thread, sum);
  }
}

void histogram() {
  book::section("histogram");
  const ct::Device gpu = ct::cuda(0);
  ct::manual_seed(3);
  const long n = 1L << 26;
  const ct::Tensor even = ct::randint(0, 256, {n}, {.device = gpu}).to(ct::u8),
                   same = ct::zeros({n}, {.dtype = ct::u8, .device = gpu});
  ct::Tensor counts = ct::zeros({256}, {.dtype = ct::i32, .device = gpu});
  std::printf(
      "67108864 bytes                     any, equally often      all 0   different results in 10 runs\n");
  const auto row = [&](const char* name, auto kernel) {
    double ms[2];
    int results = 0;
    for (int i = 0; i < 2; ++i) {
      const void* const bytes = (i == 0 ? even : same).raw_data();
      const auto work = [&] {
        counts.fill_(0);
        ct::gpu::launch("histogram", kernel, ct::gpu::grid_stride_blocks(n / 4, 256, 8), 256, 0,
                        static_cast<const unsigned*>(bytes), static_cast<unsigned*>(counts.raw_data()),
                        n / 4);
      };
      ms[i] = book::gpu_ms(work, 3);
      results = std::max(results, different([&] {
                           work();
                           return counts;
                         }));
      book::claim(ct::sum(counts.to(ct::f64)).item() == static_cast<double>(n), "each byte is counted once");
    }
    std::printf("%-34s %10.3f ms %10.3f ms %6d\n", name, ms[0], ms[1], results);
    book::claim(results == 1, "whole numbers have no order");
  };
  row("one table, in memory", count_bytes<0>);
  row("a table for each block", count_bytes<1>);
  row("eight for each block, side by side", count_bytes<8>);
}

/// y[index[p], :] += source[p, :], a thread for each element.
__global__ void scatter(const float* source, const std::int64_t* index, float* y, long count, long n) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count * n) atomicAdd(y + index[i / n] * n + i % n, source[i]);
}

void rows() {
  book::section("rows");
  const ct::Device gpu = ct::cuda(0);
  ct::manual_seed(2);
  const std::int64_t rows = 8192, n = 128, count = 262144;
  const ct::Tensor source = ct::randn({count, n}, {.device = gpu});
  const ct::Tensor index = ct::randint(0, rows, {count}, {.device = gpu}),
                   zero = ct::zeros({rows, n}, {.device = gpu});
  ct::Tensor y;
  std::printf(
      "%lld rows of %lld numbers, to which %lld rows are added\n%-28s %7s   different results in 10 runs\n",
      static_cast<long long>(rows), static_cast<long long>(n), static_cast<long long>(count), "", "ms");
  const auto row = [&](const char* name, const std::function<void()>& add) {
    const double ms = book::gpu_ms(add);
    const int results = different([&] {
      add();
      return y;
    });
    std::printf("%-28s %7.3f %6d\n", name, ms, results);
    return results;
  };
  const int of_atomics = row("as they come", [&] {
    y = ct::zeros({rows, n}, {.device = gpu});
    ct::gpu::launch("rows", scatter, ct::gpu::blocks_for("rows", count * n, 256), 256, 0,
                    source.data<float>(), index.data<std::int64_t>(), y.data<float>(), count, n);
  });
  const ct::Tensor first = y;
  const int of_library = row("ct::index_add", [&] { y = ct::index_add(zero, 0, index, source); });
  book::claim(of_atomics > 1 && of_library == 1, "one writer for each row has the same bits in every run");
  book::claim(ct::amax(ct::abs(first - y)).item() < 1e-3, "both are right but for rounding");
}

void chapter() {
  book::section("machine");
  book::machine();
  sums();
  histogram();
  rows();
}

}  // namespace

int main() { return book::run(chapter); }
