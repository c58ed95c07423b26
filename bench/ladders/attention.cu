#include <cuda_bf16.h>

#include <cmath>

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/attention/attention.h>
#include <cotangent/ops/attention/mma/hopper/hopper.h>
#include <cotangent/ops/attention/mma/launch.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/core/cuda/mma/tile.cuh>

#include "bench/ladders/ladder.h"

// y = softmax(q k^T / 8) v for each head of T queries, keys and values of 64 channels in bf16. The scores are T^2 numbers per
// head, the rest is T: the first question is where the scores go, the second what multiplies.

namespace ct::ladder::attention {
namespace {

using Element = __nv_bfloat16;

constexpr int D = 64;
constexpr float kScale = 0.125f;

// Scores in memory: three kernels, as the formula reads. Each score and each result has a thread that walks over channels or
// keys. The T x T scores are written once in f32, read three times and written again as probabilities: at T = 4096 that is
// 1 GiB for 16 heads whose inputs have 24 MiB. Both products run on the ordinary units, one multiply-add and two loads at a
// time.
__global__ void scores(const Element* q, const Element* k, float* s, int t) {
  const long head = static_cast<long>(blockIdx.z) * t;
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i >= t || j >= t) return;
  float sum = 0;
  for (int c = 0; c < D; ++c)
    sum += __bfloat162float(q[(head + i) * D + c]) * __bfloat162float(k[(head + j) * D + c]);
  s[(head + i) * t + j] = sum * kScale;
}
__global__ void probabilities(float* s, int t) {  // a warp per row
  float* row = s + (static_cast<long>(blockIdx.x) * 8 + threadIdx.x / 32) * t;
  const int lane = threadIdx.x % 32;
  float m = -INFINITY, sum = 0;
  for (int j = lane; j < t; j += 32) m = fmaxf(m, row[j]);
  for (int d = 16; d > 0; d /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
  for (int j = lane; j < t; j += 32) sum += expf(row[j] - m);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  for (int j = lane; j < t; j += 32) row[j] = expf(row[j] - m) / sum;
}
__global__ void mixed_values(const float* p, const Element* v, Element* y, int t) {
  const long head = static_cast<long>(blockIdx.z) * t;
  const int c = threadIdx.x, i = blockIdx.x * 4 + threadIdx.y;
  if (i >= t) return;
  float sum = 0;
  for (int j = 0; j < t; ++j) sum += p[(head + i) * t + j] * __bfloat162float(v[(head + j) * D + c]);
  y[(head + i) * D + c] = __float2bfloat16(sum);
}

// Tiled: the scores are never stored (Dao et al. 2022, "FlashAttention"). A thread owns a query, with its 64 channels and the
// 64 sums of its result in registers. A block takes the keys and values 32 at a time into shared memory, where all of its
// threads read the same word at once (a broadcast). The softmax is the online one: when a tile brings a larger maximum, what
// was summed so far shrinks by exp(old - new). Memory is no longer the limit: 128 multiply-adds for each key and query by the
// ordinary units are, and 60-odd TFLOP/s are all that those have.
__global__ void __launch_bounds__(128)
    tiled(const Element* q, const Element* k, const Element* v, Element* y, int t) {
  constexpr int kKeys = 32;
  __shared__ float4 keys[kKeys][D / 4], values[kKeys][D / 4];
  const long head = static_cast<long>(blockIdx.y) * t;
  const int i = blockIdx.x * 128 + threadIdx.x;
  const long row = (head + (i < t ? i : t - 1)) * D;
  float query[D], out[D] = {}, m = -INFINITY, sum = 0;
#pragma unroll
  for (int c = 0; c < D; ++c) query[c] = __bfloat162float(q[row + c]) * kScale;
  for (int first = 0; first < t; first += kKeys) {
    __syncthreads();  // the tile before has been read
    for (int n = threadIdx.x; n < kKeys * D; n += 128) {
      const long at = (head + first) * D + n;
      const bool inside = first + n / D < t;
      reinterpret_cast<float*>(keys)[n] = inside ? __bfloat162float(k[at]) : 0.f;
      reinterpret_cast<float*>(values)[n] = inside ? __bfloat162float(v[at]) : 0.f;
    }
    __syncthreads();
    float s[kKeys], top = m;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      s[j] = 0;
#pragma unroll
      for (int c = 0; c < D / 4; ++c) {
        const float4 key = keys[j][c];
        s[j] += query[4 * c] * key.x + query[4 * c + 1] * key.y + query[4 * c + 2] * key.z +
                query[4 * c + 3] * key.w;
      }
      if (first + j >= t) s[j] = -INFINITY;
      top = fmaxf(top, s[j]);
    }
    const float shrink = expf(m - top);
    m = top, sum *= shrink;
#pragma unroll
    for (int c = 0; c < D; ++c) out[c] *= shrink;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const float p = expf(s[j] - m);
      sum += p;
#pragma unroll
      for (int c = 0; c < D / 4; ++c) {
        const float4 value = values[j][c];
        out[4 * c] += p * value.x, out[4 * c + 1] += p * value.y;
        out[4 * c + 2] += p * value.z, out[4 * c + 3] += p * value.w;
      }
    }
  }
  if (i < t)
#pragma unroll
    for (int c = 0; c < D; ++c) y[row + c] = __float2bfloat16(out[c] / sum);
}

// Tensor cores: the same walk, but a warp owns 16 queries and both products are `mma`, 16 x 8 x 16 multiply-adds by one
// instruction. A lane holds of each 8 columns of scores two neighbours in two rows; rounded to bf16 that is just what the
// second product takes as its left operand, so the probabilities never leave the registers. Sums of a row are spread over
// four lanes and joined at the end. Exponentials are powers of 2, with log2(e) in the scale: that is what the hardware has.
// Keys and values lie in shared memory, chunks of 16 bytes permuted so that `ldmatrix` meets no bank twice
// (core/cuda/mma/tile.cuh). Nothing overlaps within a block: it loads, waits, computes. Other blocks fill the gaps.
__global__ void __launch_bounds__(128)
    tensor_cores(const std::uint16_t* q, const std::uint16_t* k, const std::uint16_t* v, Element* y, int t) {
  using namespace ct::mma;
  using Tile64 = Tile<D>;
  constexpr int kKeys = 64;
  __shared__ __align__(128) unsigned char memory[3][kKeys * Tile64::row_bytes];
  const std::uint32_t queries = shared_address(memory[0]), keys = shared_address(memory[1]),
                      values = shared_address(memory[2]);
  const long head = static_cast<long>(blockIdx.y) * t;
  const int first = blockIdx.x * 64, row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
  Tile64::load<64, 128>(queries, q + (head + first) * D, D, t - first, D / 8);
  float out[D / 8][4] = {}, m[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  for (int begin = 0; begin < t; begin += kKeys) {
    Tile64::load<kKeys, 128>(keys, k + (head + begin) * D, D, t - begin, D / 8);
    Tile64::load<kKeys, 128>(values, v + (head + begin) * D, D, t - begin, D / 8);
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
    float s[kKeys / 8][4] = {};
#pragma unroll
    for (int c = 0; c < D / 16; ++c) {
      std::uint32_t a[4];
      load_matrices(a, Tile64::block(queries, row, 2 * c));
#pragma unroll
      for (int j = 0; j < kKeys / 16; ++j) {
        std::uint32_t b[4];
        load_matrices(b, Tile64::block_columns(keys, 16 * j, 2 * c));
        multiply_add<ct::BFloat16>(s[2 * j], a, b[0], b[1]);
        multiply_add<ct::BFloat16>(s[2 * j + 1], a, b[2], b[3]);
      }
    }
    constexpr float kFactor = kScale * 1.44269504f;
#pragma unroll
    for (int r = 0; r < 2; ++r) {  // the lane's two rows: lane / 4, and 8 further
      float top = m[r];
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
        for (int e = 2 * r; e < 2 * r + 2; ++e) {
          if (begin + 8 * j + 2 * (lane % 4) + e % 2 >= t) s[j][e] = -INFINITY;
          top = fmaxf(top, s[j][e] *= kFactor);
        }
      }
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
      const float shrink = exp2f(m[r] - top);
      m[r] = top, sum[r] *= shrink;
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
        for (int e = 2 * r; e < 2 * r + 2; ++e) sum[r] += s[j][e] = exp2f(s[j][e] - top);
      }
#pragma unroll
      for (int c = 0; c < D / 8; ++c) out[c][2 * r] *= shrink, out[c][2 * r + 1] *= shrink;
    }
#pragma unroll
    for (int j = 0; j < kKeys / 16; ++j) {
      const float(&left)[4] = s[2 * j], (&right)[4] = s[2 * j + 1];
      const std::uint32_t a[4] = {pack<ct::BFloat16>(left[0], left[1]), pack<ct::BFloat16>(left[2], left[3]),
                                  pack<ct::BFloat16>(right[0], right[1]),
                                  pack<ct::BFloat16>(right[2], right[3])};
#pragma unroll
      for (int c = 0; c < D / 16; ++c) {
        std::uint32_t b[4];
        load_matrices_transposed(b, Tile64::block(values, 16 * j, 2 * c));
        multiply_add<ct::BFloat16>(out[2 * c], a, b[0], b[1]);
        multiply_add<ct::BFloat16>(out[2 * c + 1], a, b[2], b[3]);
      }
    }
    __syncthreads();  // all have read the tiles
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
    sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
    const int i = first + row + lane / 4 + 8 * r;
    if (i >= t) continue;
#pragma unroll
    for (int c = 0; c < D / 8; ++c)
      *reinterpret_cast<__nv_bfloat162*>(y + (head + i) * D + 8 * c + lane % 4 * 2) =
          __floats2bfloat162_rn(out[c][2 * r] / sum[r], out[c][2 * r + 1] / sum[r]);
  }
}

// ---- the ladder ----

void launch_scores(const Call& c) {
  const auto heads = static_cast<unsigned>(c.size(0)), t = static_cast<unsigned>(c.size(1));
  const ct::Tensor matrix = ct::empty({c.size(0), c.size(1), c.size(1)}, {.device = c.out[0].device()});
  float* s = matrix.data<float>();
  ct::gpu::launch("ladder", scores, dim3((t + 31) / 32, (t + 7) / 8, heads), dim3(32, 8), 0,
                  c.input<Element>(0), c.input<Element>(1), s, t);
  ct::gpu::launch("ladder", probabilities, heads * t / 8, 256, 0, s, t);
  ct::gpu::launch("ladder", mixed_values, dim3((t + 3) / 4, 1, heads), dim3(D, 4), 0, s, c.input<Element>(2),
                  c.output<Element>(0), t);
}
void launch_tiled(const Call& c) {
  const auto heads = static_cast<unsigned>(c.size(0)), t = static_cast<unsigned>(c.size(1));
  ct::gpu::launch("ladder", tiled, dim3((t + 127) / 128, heads), 128, 0, c.input<Element>(0),
                  c.input<Element>(1), c.input<Element>(2), c.output<Element>(0), t);
}
void launch_tensor_cores(const Call& c) {
  const auto heads = static_cast<unsigned>(c.size(0)), t = static_cast<unsigned>(c.size(1));
  ct::gpu::launch("ladder", tensor_cores, dim3((t + 63) / 64, heads), 128, 0, c.input<std::uint16_t>(0),
                  c.input<std::uint16_t>(1), c.input<std::uint16_t>(2), c.output<Element>(0), t);
}

// The library's kernels are the last two rungs. Comments there say how each differs from the rung above.
template <void (*forward)(const ct::attention::mma::Problem&)>
void launch_library(const Call& c) {
  ct::attention::mma::Problem p;
  const auto rows = [&](const ct::Tensor& x) {
    return ct::attention::mma::Rows{x.raw_data(), c.size(1) * D, c.size(1) * D, D};
  };
  p.batch = static_cast<int>(c.size(0)), p.heads = p.kv_heads = 1;
  p.queries = p.keys = static_cast<int>(c.size(1)), p.head_dim = p.value_dim = D;
  p.scale = kScale;
  p.q = rows(c.in[0]), p.k = rows(c.in[1]), p.v = rows(c.in[2]), p.out = rows(c.out[0]);
  const ct::Tensor statistics = ct::empty({c.size(0), c.size(1), 2}, {.device = c.out[0].device()});
  p.statistics = reinterpret_cast<float2*>(statistics.data<float>());
  forward(p);
}

Tensors inputs(const Case& c) {
  const auto one = [&] { return ct::randn({c.size[0], 1, c.size[1], D}); };
  return {one(), one(), one()};
}
Tensors attended(const Tensors& in) { return {ct::scaled_dot_product_attention(in[0], in[1], in[2])}; }

const std::vector<ct::DType> kBf16 = {ct::bf16};
const bool kAdded = ct::ladder::add({
    .name = "attention",
    .what = "y = softmax(q k^T / 8) v, heads x positions, 64 channels",
    .device = ct::DeviceType::cuda,
    .unit = Unit::flops,
    .small = {{ct::bf16, {3, 200}}, {ct::bf16, {2, 64}}},
    .timed = {{ct::bf16, {32, 4096}}},
    .work = [](const Case& c) { return 4.0 * D * static_cast<double>(c.size[0] * c.size[1] * c.size[1]); },
    .inputs = inputs,
    .plain = attended,
    .library = attended,
    .library_name = "ct::scaled_dot_product_attention",
    .rungs =
        {
            {"scores", "three kernels, the scores in memory", launch_scores, kBf16},
            {"tiled", "scores are never stored: an online softmax over tiles of keys", launch_tiled, kBf16},
            {"mma", "tensor cores multiply, probabilities stay in registers", launch_tensor_cores, kBf16},
            {"pipelined", "the next keys are on their way meanwhile (ops/attention/mma/forward.cuh)",
             launch_library<ct::attention::mma::forward_bf16>, kBf16},
#ifdef COTANGENT_SM90A
            {"wgmma",
             "a warpgroup multiplies from shared memory, a warp loads (ops/attention/mma/hopper/forward.cuh)",
             launch_library<ct::attention::mma::hopper_forward_bf16>, kBf16, true},
#endif
        },
    .slack = 4,  // probabilities are rounded to bf16 before the second product
});

}  // namespace
}  // namespace ct::ladder::attention
