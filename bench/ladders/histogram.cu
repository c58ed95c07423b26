#include "bench/ladders/histogram.h"
#include "bench/ladders/rows.cuh"

// An atomic addition for each number. Half of the numbers are one of four: these places are what the threads wait for. Whole
// numbers have the same sum in any order, so every rung has the same bits.

namespace ct::ladder::histogram {
namespace {

using Count = unsigned long long;  // what atomicAdd takes for the i64 of the result

// Memory: added to where the result lies. Additions to one place are done one after the other in the second-level cache, and
// of a warp's 32 several go there.
__global__ void __launch_bounds__(256) memory(const int* x, Count* counts, long n) {
  const long i = static_cast<long>(blockIdx.x) * 256 + threadIdx.x;
  if (i < n) atomicAdd(&counts[x[i]], Count(1));
}

// A block's own table, in shared memory (privatisation): 256 additions to memory for each block are left. Blocks stay, as many as
// are resident, so that these are few.
template <int kTables, class Each>
__device__ void in_tables(Count* counts, Each each) {
  __shared__ unsigned own[kTables][kValues];
  for (int i = threadIdx.x; i < kTables * kValues; i += 256) own[0][i] = 0;
  __syncthreads();
  each(own[threadIdx.x / 32 % kTables]);
  __syncthreads();
  unsigned sum = 0;
  for (int k = 0; k < kTables; ++k) sum += own[k][threadIdx.x];
  if (sum > 0) atomicAdd(&counts[threadIdx.x], Count(sum));
}
template <int kTables>
__global__ void __launch_bounds__(256) tables(const int* x, Count* counts, long n) {
  in_tables<kTables>(counts, [&](unsigned* own) {
    for (long i = static_cast<long>(blockIdx.x) * 256 + threadIdx.x; i < n; i += gridDim.x * 256L)
      atomicAdd(&own[x[i]], 1u);
  });
}

// Vectors: 16 bytes by one instruction; and a run of equal numbers among the four is one addition.
__global__ void __launch_bounds__(256) vectors(const int* x, Count* counts, long n) {
  in_tables<8>(counts, [&](unsigned* own) {
    const long first = static_cast<long>(blockIdx.x) * 256 + threadIdx.x, step = gridDim.x * 256L;
    for (long i = first; i < n / 4; i += step) {
      const int4 v = __ldcs(reinterpret_cast<const int4*>(x) + i);
      const int values[4] = {v.x, v.y, v.z, v.w};
      unsigned run = 1;
#pragma unroll
      for (int k = 1; k < 4; ++k) {
        if (values[k] == values[k - 1]) {
          ++run;
          continue;
        }
        atomicAdd(&own[values[k - 1]], run);
        run = 1;
      }
      atomicAdd(&own[values[3]], run);
    }
    if (const long i = n / 4 * 4 + first; i < n) atomicAdd(&own[x[i]], 1u);
  });
}

template <class Kernel>
void run(const Call& c, Kernel kernel, unsigned blocks) {
  Tensor(c.out[0]).fill_(0);
  launch256(kernel, dim3(blocks), c.input<int>(0), reinterpret_cast<Count*>(c.output<std::int64_t>(0)),
            c.size(0));
}
template <class Kernel>
void stay(const Call& c, Kernel kernel) {
  run(c, kernel, gpu::grid_stride_blocks(c.size(0), 256, 8));
}

const bool kAdded = [] {
  Ladder ladder = described(
      DeviceType::cuda,
      {{"memory", "an addition to memory for each number",
        [](const Call& c) { run(c, memory, gpu::blocks_for("ladder", c.size(0), 256)); }},
       {"block", "a table of the block's own, in shared memory", [](const Call& c) { stay(c, tables<1>); }},
       {"warps", "a table for each warp: an eighth waits at each place",
        [](const Call& c) { stay(c, tables<8>); }},
       {"vectors", "16 bytes by one instruction, runs of equal numbers are one addition",
        [](const Call& c) { stay(c, vectors); }}});
  ladder.timed = {{i32, {1 << 26}}};
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::histogram
