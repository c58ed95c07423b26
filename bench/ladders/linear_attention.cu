#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/indexing/rearrange.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/view/view.h>

#include "bench/ladders/ladder.h"

// y_t = q_t S_t with S_t = S_(t-1) + k_t^T v_t: attention without a softmax (Katharopoulos et al. 2020, "Transformers are
// RNNs"), for each head of T positions and 64 channels, in f32. The sum over the past may be bracketed in two ways,
// (q k^T) v with T x T weights or q (k^T v) with a state of 64 x 64, and the rungs are the ways between them.

namespace ct::ladder::linear_attention {
namespace {

constexpr int D = 64, kChunk = 64;

// Weights: the first bracketing, as attention does it. A block owns 64 queries and walks over the keys up to the diagonal.
// 128 T operations for each position where the state needs 256 * 64 in all: beyond some hundred positions this is the
// worse one, and twice the length is twice the time for each position.
//
// All rungs but one are made of products of 64 x 64 matrices in shared memory, c += a b: each of 128 threads sums 8 x 4
// elements in registers, of rows i + 8 m and columns j + 16 n. Rows have 65 words, so that lanes which read down a column
// meet no bank twice.
constexpr int kThreads = 128;
struct Matrix {
  float element[D][D + 1];

  __device__ void load(const float* from, int rows) {
    for (int n = threadIdx.x; n < D * D / 4; n += kThreads) {
      const int r = n / (D / 4), c = n % (D / 4) * 4;
      const float4 v = r < rows ? *reinterpret_cast<const float4*>(from + r * D + c) : float4{};
      float* to = &element[r][c];
      to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    }
  }
};
struct Sums {
  float at[8][4] = {};
  int row = threadIdx.x / 16, column = threadIdx.x % 16;

  // a(i, k) and b(k, j) are elements, so that either may be read transposed.
  template <class A, class B>
  __device__ void add_product(const A& a, const B& b) {
#pragma unroll 4
    for (int k = 0; k < D; ++k) {
      float right[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) right[j] = b(k, column + 16 * j);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float left = a(row + 8 * i, k);
#pragma unroll
        for (int j = 0; j < 4; ++j) at[i][j] += left * right[j];
      }
    }
  }
  template <class F>
  __device__ void each(const F& f) const {
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) f(row + 8 * i, column + 16 * j, at[i][j]);
  }
  __device__ void store(float* to, int rows) const {
    each([&](int i, int j, float value) {
      if (i < rows) to[i * D + j] = value;
    });
  }
};
__device__ auto plain(const Matrix& m) {
  return [&m](int i, int k) { return m.element[i][k]; };
}
__device__ auto transposed(const Matrix& m) {
  return [&m](int i, int k) { return m.element[k][i]; };
}
// y += (q k^T, of which only keys up to the query's own are seen if `diagonal`) v; k's memory holds the weights after it.
__device__ void add_weighted(Sums& y, const Matrix& q, Matrix& k, const Matrix& v, bool diagonal) {
  Sums weights;
  weights.add_product(plain(q), transposed(k));
  __syncthreads();
  weights.each([&](int i, int j, float w) { k.element[i][j] = diagonal && j > i ? 0.f : w; });
  __syncthreads();
  y.add_product(plain(k), plain(v));
}

__global__ void __launch_bounds__(kThreads)
    weights(const float* q, const float* k, const float* v, float* y, int t) {
  extern __shared__ Matrix tile[];
  const long head = static_cast<long>(blockIdx.y) * t * D;
  const int first = blockIdx.x * kChunk;
  tile[0].load(q + head + first * D, t - first);
  Sums sums;
  for (int begin = 0; begin <= first; begin += kChunk) {
    __syncthreads();
    tile[1].load(k + head + begin * D, t - begin);
    tile[2].load(v + head + begin * D, t - begin);
    __syncthreads();
    add_weighted(sums, tile[0], tile[1], tile[2], begin == first);
  }
  sums.store(y + head + first * D, t - first);
}

// Recurrent: the second bracketing, position by position, as one writes it for a single token. A block has a head; thread
// (j, part) holds a quarter of column j of the state in registers, adds k_i v_j to element i and sums q_i S_ij; four parts
// are joined by shuffles. Nothing is computed twice and every input is read once. But positions come one after the other:
// only as many blocks as heads, each waiting for its next row, a few multiply-adds per barrier.
__global__ void __launch_bounds__(256)
    recurrent(const float* q, const float* k, const float* v, float* y, int t) {
  __shared__ float query[2][D], key[2][D];
  const long head = static_cast<long>(blockIdx.x) * t * D;
  const int j = threadIdx.x / 4, part = threadIdx.x % 4;
  float state[D / 4] = {};
  for (int p = 0; p < t; ++p) {
    const long at = head + static_cast<long>(p) * D;
    if (threadIdx.x < D)
      query[p % 2][threadIdx.x] = q[at + threadIdx.x];
    else if (threadIdx.x < 2 * D)
      key[p % 2][threadIdx.x - D] = k[at + threadIdx.x - D];
    const float value = v[at + j];
    __syncthreads();  // one is enough: the next position writes the other memory
    float sum = 0;
#pragma unroll
    for (int i = 0; i < D / 4; ++i) {
      state[i] += key[p % 2][4 * i + part] * value;
      sum += query[p % 2][4 * i + part] * state[i];
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (part == 0) y[at + j] = sum;
  }
}

// Chunked: both bracketings, each where it is cheap. Within a chunk of 64 positions the weights (64 x 64), for all that
// came before it the state: y = q S + tril(q k^T) v, then S += k^T v. Four products of matrices in place of 64 steps:
// loaded elements are used several times, and there are four barriers a chunk instead of one a position. The chunks of a
// head still wait for each other.
__global__ void __launch_bounds__(kThreads)
    chunked(const float* q, const float* k, const float* v, float* y, int t) {
  extern __shared__ Matrix tile[];  // of queries, keys, values; the state
  const long head = static_cast<long>(blockIdx.x) * t * D;
  Sums state;
  for (int first = 0; first < t; first += kChunk) {
    const long at = head + static_cast<long>(first) * D;
    __syncthreads();
    tile[0].load(q + at, t - first);
    tile[1].load(k + at, t - first);
    tile[2].load(v + at, t - first);
    state.each([&](int i, int j, float s) { tile[3].element[i][j] = s; });
    __syncthreads();
    state.add_product(transposed(tile[1]), plain(tile[2]));
    Sums sums;
    sums.add_product(plain(tile[0]), plain(tile[3]));
    add_weighted(sums, tile[0], tile[1], tile[2], true);
    sums.store(y + at, t - first);
  }
}

// Chunks at once: chunk c waits for a sum of k^T v over the chunks before it. So three kernels: every chunk's own
// k^T v, side by side; their sums from the left, element by element; and then all chunks of all heads with their states.
// The states cost memory, 16 KiB written, read, written and read for each chunk's 64 KiB of inputs and output, and
// the GPU is full whatever the number of heads.
__global__ void __launch_bounds__(kThreads)
    chunk_states(const float* k, const float* v, float* states, int t) {
  extern __shared__ Matrix tile[];
  const int first = blockIdx.x * kChunk;
  const long at = (static_cast<long>(blockIdx.y) * t + first) * D;
  tile[0].load(k + at, t - first);
  tile[1].load(v + at, t - first);
  __syncthreads();
  Sums state;
  state.add_product(transposed(tile[0]), plain(tile[1]));
  state.store(states + (static_cast<long>(blockIdx.y) * gridDim.x + blockIdx.x) * D * D, D);
}
__global__ void sum_states(float* states, int chunks) {  // each element becomes the sum of those before it
  float* s = states + static_cast<long>(blockIdx.y) * chunks * D * D + blockIdx.x * 256 + threadIdx.x;
  float sum = 0;
#pragma unroll 4
  for (int c = 0; c < chunks; ++c, s += D * D) {
    const float own = *s;
    *s = sum;
    sum += own;
  }
}
__global__ void __launch_bounds__(kThreads)
    chunk_results(const float* q, const float* k, const float* v, const float* states, float* y, int t) {
  extern __shared__ Matrix tile[];
  const int first = blockIdx.x * kChunk;
  const long at = (static_cast<long>(blockIdx.y) * t + first) * D;
  tile[0].load(q + at, t - first);
  tile[1].load(k + at, t - first);
  tile[2].load(states + (static_cast<long>(blockIdx.y) * gridDim.x + blockIdx.x) * D * D, D);
  __syncthreads();
  Sums sums;
  sums.add_product(plain(tile[0]), plain(tile[2]));
  __syncthreads();
  tile[2].load(v + at, t - first);
  __syncthreads();
  add_weighted(sums, tile[0], tile[1], tile[2], true);
  sums.store(y + at, t - first);
}

// ---- the ladder ----

constexpr std::size_t kThreeTiles = 3 * sizeof(Matrix);

template <class Kernel>
void launch(const Call& c, Kernel kernel, dim3 grid, int threads, std::size_t memory) {
  ct::gpu::launch("ladder", kernel, grid, threads, memory, c.input<float>(0), c.input<float>(1),
                  c.input<float>(2), c.output<float>(0), c.size(1));
}
unsigned chunks(const Call& c) { return static_cast<unsigned>((c.size(1) + kChunk - 1) / kChunk); }
unsigned heads(const Call& c) { return static_cast<unsigned>(c.size(0)); }

void launch_at_once(const Call& c) {
  const ct::Tensor held = ct::empty({c.size(0) * chunks(c) * D * D}, {.device = c.out[0].device()});
  float* states = held.data<float>();
  const dim3 grid(chunks(c), heads(c));
  const float *q = c.input<float>(0), *k = c.input<float>(1), *v = c.input<float>(2);
  ct::gpu::launch("ladder", chunk_states, grid, kThreads, 2 * sizeof(Matrix), k, v, states, c.size(1));
  ct::gpu::launch("ladder", sum_states, dim3(D * D / 256, heads(c)), 256, 0, states, chunks(c));
  ct::gpu::launch("ladder", chunk_results, grid, kThreads, kThreeTiles, q, k, v, states, c.output<float>(0),
                  c.size(1));
}

Tensors inputs(const Case& c) {
  const auto one = [&] { return ct::randn({c.size[0], c.size[1], D}); };
  return {one(), one(), one()};
}
// The weights of all positions, by products and tril().
Tensors by_weights(const Tensors& in) {
  return {ct::matmul(ct::tril(ct::matmul(in[0], in[1].transpose(1, 2))), in[2])};
}

const bool kAdded = ct::ladder::add({
    .name = "linear_attention",
    .what = "y_t = q_t (sum over s <= t of k_s^T v_s), heads x positions, 64 channels",
    .device = ct::DeviceType::cuda,
    .unit = Unit::bytes,
    .small = {{ct::f32, {3, 200}}, {ct::f32, {1, 1}}},
    .timed = {{ct::f32, {128, 4096}}},
    .work = [](const Case& c) { return 16.0 * D * static_cast<double>(c.size[0] * c.size[1]); },
    .inputs = inputs,
    .plain = by_weights,
    .library = by_weights,
    .library_name = "ct::matmul(tril(matmul(q, k^T)), v)",
    .rungs = {{"weights", "T x T weights, as attention has them, 64 x 64 at a time",
               [](const Call& c) { launch(c, weights, dim3(chunks(c), heads(c)), kThreads, kThreeTiles); }},
              {"recurrent", "a state in registers, position by position: each input is read once",
               [](const Call& c) { launch(c, recurrent, heads(c), 256, 0); }},
              {"chunked", "weights within a chunk, the state before it: products instead of steps",
               [](const Call& c) { launch(c, chunked, heads(c), kThreads, 4 * sizeof(Matrix)); }},
              {"chunks-at-once", "the states are summed first, then all chunks run side by side",
               launch_at_once}},
});

}  // namespace
}  // namespace ct::ladder::linear_attention
