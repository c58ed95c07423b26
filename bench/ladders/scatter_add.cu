#include <cuda_fp16.h>

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/engine/scatter/pair_sort_cuda.h>
#include <cotangent/ops/indexing/indexing.h>

#include "bench/ladders/ladder.h"

// y[index[p], :] += source[p, :]: the gradient of an embedding, the sum over a graph's edges. Several p name one row of y,
// so somebody must see to it that no addition is lost: the memory (atomics) or the order of the work (sorted).
//
// Additions of floating-point numbers do not associate. Atomics are carried out in their order of arrival, which differs
// from run to run, and so do the last bits. The program runs each rung ten times and says whether all had the same bits.
// That is why the library has none (docs/glossary.md).

namespace ct::ladder::scatter_add {
namespace {

// Atomics, f32: a thread for each element of the source, one atomic addition each. Their results are not used, so they are
// sent off without waiting (RED): the second-level cache adds, 4 bytes per operation. Its units are the bottleneck, most of
// all where many name the same row.
__global__ void atomics(const float* source, const int* index, float* y, unsigned count, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count * n) atomicAdd(y + static_cast<long>(index[i / n]) * n + i % n, source[i]);
}

// Vectors of atomics: compute capability 9.0 adds four neighbouring floats by one instruction of 16 bytes, each of them
// atomic by itself. A quarter of the operations for the same bytes.
__global__ void atomic_vectors(const float4* source, const int* index, float4* y, unsigned count,
                               unsigned packs) {
#if __CUDA_ARCH__ >= 900
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count * packs) atomicAdd(y + static_cast<long>(index[i / packs]) * packs + i % packs, source[i]);
#endif
}

// Atomics, f16: half the bytes, as many operations, and what is added to is a half as well: once a row's sum is 2048
// times an addend, the addend is rounded away. An addition of a single half is done as one of a pair whose other
// element adds nothing, or by a loop of compare and swap where the GPU has none.
__global__ void half_atomics(const __half* source, const int* index, __half* y, unsigned count, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count * n) atomicAdd(y + static_cast<long>(index[i / n]) * n + i % n, source[i]);
}

// Packed pairs, f16: two neighbouring halves by one operation of 4 bytes, which is what the hardware has: half as many, none
// of which pretends to be a pair. Little more than a third of the time of the rung before, and the same loss of digits.
__global__ void packed_atomics(const __half2* source, const int* index, __half2* y, unsigned count,
                               unsigned pairs) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count * pairs) atomicAdd(y + static_cast<long>(index[i / pairs]) * pairs + i % pairs, source[i]);
}

// Sorted: the positions p are sorted by the row that they name (stable, so equal ones stay in their order), and then each
// row of y has one writer, who adds its source rows in the order of p. No atomics, sums in f32 in registers, y written
// once, and the same bits in every run. Sorting costs a few reads and writes of 8 bytes for each p, little beside the
// rows. The threads of a row find where its positions begin by bisection. A row that very many name is this rung's
// weakness: its one writer works alone; the library's cuts such rows into pieces (ops/engine/scatter/).
__global__ void number_positions(const unsigned* index, unsigned* keys, unsigned* positions, unsigned count) {
  const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p < count) keys[p] = index[p], positions[p] = p;
}
__device__ unsigned first_not_below(const unsigned* sorted, unsigned count, unsigned key) {
  unsigned low = 0;
  for (unsigned high = count; low < high;) {
    const unsigned middle = (low + high) / 2;
    if (sorted[middle] < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}
__device__ float4 plus(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
__device__ float4 wide(float4 v) { return v; }
__device__ float4 wide(uint2 v) {
  const float2 a = __half22float2(reinterpret_cast<const __half2*>(&v)[0]);
  const float2 b = __half22float2(reinterpret_cast<const __half2*>(&v)[1]);
  return {a.x, a.y, b.x, b.y};
}
__device__ void narrow(float4 v, float4& to) { to = v; }
__device__ void narrow(float4 v, uint2& to) {
  reinterpret_cast<__half2*>(&to)[0] = __floats2half2_rn(v.x, v.y);
  reinterpret_cast<__half2*>(&to)[1] = __floats2half2_rn(v.z, v.w);
}
// V holds four elements; `packs` of them are a row.
template <class V>
__global__ void one_writer(const V* source, const unsigned* sorted, const unsigned* positions, V* y,
                           unsigned count, unsigned rows, unsigned packs) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const unsigned row = static_cast<unsigned>(i / packs), c = static_cast<unsigned>(i % packs);
  if (row >= rows) return;
  float4 sum = {};
#pragma unroll 4
  for (unsigned s = first_not_below(sorted, count, row); s < count && sorted[s] == row; ++s)
    sum = plus(sum, wide(source[static_cast<long>(positions[s]) * packs + c]));
  narrow(sum, y[i]);
}

// ---- the ladder ----

// Sizes of a case: rows of y, their length, rows of the source. T is what one operation adds.
template <class T, class Kernel>
void launch_atomics(const Call& c, Kernel kernel) {
  const std::int64_t width = c.size(1) * static_cast<std::int64_t>(size_of(c.of.dtype)) / sizeof(T);
  const ct::Tensor& y = c.out[0];
  CT_CUDA_OP("ladder",
             cudaMemsetAsync(y.raw_data(), 0, y.numel() * size_of(y.dtype()), ct::gpu::native_stream()));
  ct::gpu::launch("ladder", kernel, ct::gpu::blocks_for("ladder", c.size(2) * width, 256), 256, 0,
                  c.input<T>(0), c.input<int>(1), c.output<T>(0), c.size(2), width);
}

void launch_atomic_vectors(const Call& c) {
  CT_CHECK(gpu::compiled_arch<atomic_vectors>("ladder") >= 900, CudaError, "ladder",
           "this build has no code for atomics of 16 bytes; configure it with "
           "-DCOTANGENT_CUDA_ARCHITECTURES=90a-real");
  launch_atomics<float4>(c, atomic_vectors);
}

template <class V>
void launch_sorted(const Call& c) {
  const unsigned count = static_cast<unsigned>(c.size(2)), rows = static_cast<unsigned>(c.size(0));
  const unsigned packs = static_cast<unsigned>(c.size(1)) / 4;
  ct::scatter_impl::PairSort sort("ladder", count);
  const auto bytes = static_cast<std::int64_t>(sort.bytes());
  const ct::Tensor memory = ct::empty({bytes}, {.dtype = ct::u8, .device = c.out[0].device()});
  sort.place(memory.raw_data());
  ct::gpu::launch("ladder", number_positions, ct::gpu::blocks_for("ladder", count, 256), 256, 0,
                  c.input<unsigned>(1), sort.keys(), sort.places(), count);
  sort.sort(32 - __builtin_clz(rows));
  ct::gpu::launch("ladder", one_writer<V>, ct::gpu::blocks_for("ladder", std::int64_t{rows} * packs, 256),
                  256, 0, c.input<V>(0), sort.keys(), sort.places(), c.output<V>(0), count, rows, packs);
}
void launch_sorted_either(const Call& c) {
  c.of.dtype == ct::f32 ? launch_sorted<float4>(c) : launch_sorted<uint2>(c);
}

Tensors inputs(const Case& c) {
  return {ct::randn({c.size[2], c.size[1]}), ct::randint(0, c.size[0], {c.size[2]}, {.dtype = ct::i32}),
          ct::zeros({c.size[0], c.size[1]})};
}
Tensors added(const Tensors& in) { return {ct::index_add(in[2], 0, in[1], in[0])}; }

const bool kAdded = ct::ladder::add({
    .name = "scatter_add",
    .what = "y[index[p]] += source[p], y zeros; rows of y x their length x rows of the source",
    .device = ct::DeviceType::cuda,
    .unit = Unit::bytes,
    .small = {{ct::f32, {37, 8, 1000}}, {ct::f16, {337, 8, 1000}}},
    .timed = {{ct::f32, {65'536, 128, 1 << 20}}, {ct::f16, {65'536, 128, 1 << 20}}},
    .work =
        [](const Case& c) {
          const double row = static_cast<double>(c.size[1] * size_of(c.dtype));
          return static_cast<double>(c.size[2]) * (row + 4) + static_cast<double>(c.size[0]) * row;
        },
    .inputs = inputs,
    .plain = added,
    .library = added,
    .library_name = "ct::index_add",
    .rungs = {{"atomics", "an addition that the cache carries out for each element",
               [](const Call& c) { launch_atomics<float>(c, atomics); }},
              {.name = "atomic-vectors",
               .why = "four additions by one instruction",
               .run = launch_atomic_vectors,
               .hopper = true},
              {"half-atomics",
               "half the bytes, as many operations; sums are halves",
               [](const Call& c) { launch_atomics<__half>(c, half_atomics); },
               {ct::f16}},
              {"packed-atomics",
               "two halves by one operation",
               [](const Call& c) { launch_atomics<__half2>(c, packed_atomics); },
               {ct::f16}},
              {"sorted",
               "each row has one writer, who adds in order: the same bits in every run",
               launch_sorted_either,
               {ct::f32, ct::f16}}},
    .slack = 8,  // atomics on halves round after every addition
    .runs = 10,
});

}  // namespace
}  // namespace ct::ladder::scatter_add
