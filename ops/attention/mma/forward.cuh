#pragma once

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/attention/mma/common.cuh>

// Attention forward with warp-level tensor-core instructions, after FlashAttention-2 (Dao 2023): a block of
// threads owns 128 queries, walks over the keys in steps of KeyBlock and keeps the running maximum and sum of
// each row, so that neither scores nor probabilities ever leave registers.
//
// Each of the 8 warps owns 16 query rows throughout. The scores come out of the first product in the very
// layout in which the second takes its left operand. Keys and values of the next step are on their way
// (cp.async) while this one is computed. Extra says whether masks and dropout are compiled in.

namespace ct::attention::mma {

template <int D>
struct ForwardShape {
  static constexpr int warps = 8;
  static constexpr int threads = 32 * warps;
  static constexpr int query_block = 16 * warps;
  static constexpr int key_block = D <= 128 ? 64 : 32;
  // Two blocks per multiprocessor where the registers allow it: one computes while the other waits.
  static constexpr int blocks = D <= 64 ? 2 : 1;
  static constexpr bool queries_in_registers = D <= 128;
  static constexpr int query_bytes = query_block * 2 * D;
  static constexpr int stage_bytes = key_block * 2 * D;  // of keys, and again of values
  static constexpr int smem = query_bytes + 4 * stage_bytes;
};

template <class T, int D, Extras Extra>
__global__ void __launch_bounds__(ForwardShape<D>::threads,
                                  (Extra == Extras::all ? 1 : ForwardShape<D>::blocks))
    forward_kernel(const __grid_constant__ Problem p, int query_blocks) {
  gpu::wait_for_previous();
  using Shape = ForwardShape<D>;
  using DTile = Tile<D>;
  constexpr int BM = Shape::query_block, BN = Shape::key_block, threads = Shape::threads;
  constexpr int steps = D / 16;  // of the contraction over channels
  constexpr int columns = BN / 8, values = D / 8;

  extern __shared__ __align__(128) unsigned char smem[];
  const std::uint32_t query_tile = shared_address(smem);
  const std::uint32_t key_tiles = query_tile + Shape::query_bytes;
  const std::uint32_t value_tiles = key_tiles + 2 * Shape::stage_bytes;

  // Late queries see the most keys under causality: they go first, so that the last blocks are short ones.
  const int m = query_blocks - 1 - static_cast<int>(blockIdx.x % query_blocks);
  const int bh = static_cast<int>(blockIdx.x / query_blocks);
  const int b = bh / p.heads, h = bh % p.heads, kv = h / (p.heads / p.kv_heads);
  const int first = m * BM;
  const int warp = static_cast<int>(threadIdx.x >> 5), lane = static_cast<int>(threadIdx.x & 31);
  const int row = warp * 16;                 // of this warp, in the tile
  const int i0 = first + row + (lane >> 2);  // the two queries of this thread: i0 and i0 + 8
  const int key_chunks = p.head_dim / 8, value_chunks = p.value_dim / 8;

  const std::uint16_t* keys = row_pointer(p.k, b, kv, 0);
  const std::uint16_t* vals = row_pointer(p.v, b, kv, 0);
  const auto load_step = [&](int n, int stage) {
    const int begin = n * BN;
    DTile::template load<BN, threads>(key_tiles + stage * Shape::stage_bytes, keys + begin * p.k.position,
                                      p.k.position, p.keys - begin, key_chunks);
    DTile::template load<BN, threads>(value_tiles + stage * Shape::stage_bytes, vals + begin * p.v.position,
                                      p.v.position, p.keys - begin, value_chunks);
    copy_async_commit();
  };

  const int end = key_blocks_end<BN>(p, first, BM);
  DTile::template load<BM, threads>(query_tile, row_pointer(p.q, b, h, first), p.q.position,
                                    p.queries - first, key_chunks);
  copy_async_commit();
  if (end > 0) load_step(end - 1, 0);

  float out[values][4] = {};
  float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0, 0};
  std::uint32_t q[Shape::queries_in_registers ? steps : 1][4];
  const float to_log2 = p.scale * kLog2E;
  [[maybe_unused]] const GeneratorState draw =
      Extra != Extras::none ? p.dropout.draw.now() : GeneratorState{};

  // From the last key block down: those that causality cuts come first.
  for (int n = end - 1, stage = 0; n >= 0; --n, stage ^= 1) {
    copy_async_wait<0>();
    __syncthreads();
    if constexpr (Shape::queries_in_registers) {
      if (n == end - 1) {
#pragma unroll
        for (int k = 0; k < steps; ++k) load_matrices(q[k], DTile::block(query_tile, row, 2 * k));
      }
    }
    if (n > 0) load_step(n - 1, stage ^ 1);

    // s = q k^T
    float s[columns][4] = {};
    const std::uint32_t key_tile = key_tiles + stage * Shape::stage_bytes;
#pragma unroll
    for (int k = 0; k < steps; ++k) {
      std::uint32_t a[4];
      if constexpr (!Shape::queries_in_registers) load_matrices(a, DTile::block(query_tile, row, 2 * k));
#pragma unroll
      for (int c = 0; c < BN / 16; ++c) {
        std::uint32_t b_part[4];
        load_matrices(b_part, DTile::block_columns(key_tile, 16 * c, 2 * k));
        if constexpr (Shape::queries_in_registers) {
          multiply_add<T>(s[2 * c], q[k], b_part[0], b_part[1]);
          multiply_add<T>(s[2 * c + 1], q[k], b_part[2], b_part[3]);
        } else {
          multiply_add<T>(s[2 * c], a, b_part[0], b_part[1]);
          multiply_add<T>(s[2 * c + 1], a, b_part[2], b_part[3]);
        }
      }
    }

    const int j0 = n * BN + 2 * (lane & 3);                     // the key of s[0][0]
    const float scale = Extra == Extras::all ? 1.0f : p.scale;  // with a mask the scores are scaled here
    if constexpr (Extra == Extras::all) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[c][e] = __fmul_rn(s[c][e], p.scale);
      }
      visit_mask<T, columns>(
          p, b, h, i0, j0, [](int, int e) { return 8 * (e >> 1); },
          [](int c, int e) { return 8 * c + (e & 1); },
          [&](int c, int e, float term) { s[c][e] = masked(s[c][e], term); });
    }
    // Only blocks at the end of the keys or on the diagonal have something to hide.
    if ((n + 1) * BN > p.keys || (p.causal && (n + 1) * BN - 1 > first + row + p.causal_offset)) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int i = i0 + 8 * (e >> 1), j = j0 + 8 * c + (e & 1);
          if (j >= p.keys || (p.causal && j > i + p.causal_offset)) s[c][e] = -INFINITY;
        }
      }
    }

    // The new maxima; what was summed under the old ones shrinks accordingly.
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most = row_max[r];
#pragma unroll
      for (int c = 0; c < columns; ++c) most = fmaxf(most, fmaxf(s[c][2 * r], s[c][2 * r + 1]));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      const float largest = most == -INFINITY ? 0.0f : most * scale;  // a row that has seen nothing yet
      const float base = log2_base(largest);
      const float shrink = exp2_flushed(Extra == Extras::all ? (row_max[r] - largest) * kLog2E
                                                             : log2_base(row_max[r] * scale) - base);
      row_max[r] = most;
      float sum = row_sum[r] * shrink;
#pragma unroll
      for (int c = 0; c < columns; ++c) {
#pragma unroll
        for (int e = 2 * r; e < 2 * r + 2; ++e) {
          // Masks may be as large as numbers get, and units of log2 larger.
          const float x = Extra == Extras::all ? (s[c][e] - largest) * kLog2E : fmaf(s[c][e], to_log2, -base);
          s[c][e] = exp2_flushed(x);
          sum += s[c][e];
        }
      }
      row_sum[r] = sum;
#pragma unroll
      for (int c = 0; c < values; ++c) {
        out[c][2 * r] *= shrink;
        out[c][2 * r + 1] *= shrink;
      }
    }

    if constexpr (Extra != Extras::none) {
      if (p.dropout.active) {
        const std::uint64_t row0 = (static_cast<std::uint64_t>(bh) * p.queries + i0) * p.keys;
        const std::uint64_t row8 = row0 + std::uint64_t{8} * p.keys;
        if (p.keys % 4 == 0) {
          // 8 keys of 2 rows are 4 blocks of 4 random words, one for each of the 4 lanes that share them.
          const int t = lane & 3;
#pragma unroll
          for (int c = 0; c < columns; ++c) {
            const std::uint64_t at = (t & 2 ? row8 : row0) + n * BN + 8 * c;
            std::uint32_t bits = kept_bits(p.dropout, draw, at / 4 + (t & 1)) << (4 * t);
            bits |= __shfl_xor_sync(0xffffffffu, bits, 1);
            bits |= __shfl_xor_sync(0xffffffffu, bits, 2);
            bits >>= 2 * t;  // key 2 t + e of row 0 is bit 2 t + e, of row 8 bit 8 + 2 t + e
#pragma unroll
            for (int e = 0; e < 4; ++e)
              if (!(bits >> (8 * (e >> 1) + (e & 1)) & 1u)) s[c][e] = 0;
          }
        } else {
#pragma unroll
          for (int c = 0; c < columns; ++c) {
#pragma unroll
            for (int e = 0; e < 4; ++e)
              if (!kept(p.dropout, draw, (e & 2 ? row8 : row0) + j0 + 8 * c + (e & 1))) s[c][e] = 0;
          }
        }
      }
    }

    // out += p v
    const std::uint32_t value_tile = value_tiles + stage * Shape::stage_bytes;
#pragma unroll
    for (int k = 0; k < BN / 16; ++k) {
      const std::uint32_t a[4] = {pack<T>(s[2 * k][0], s[2 * k][1]), pack<T>(s[2 * k][2], s[2 * k][3]),
                                  pack<T>(s[2 * k + 1][0], s[2 * k + 1][1]),
                                  pack<T>(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
      for (int c = 0; c < D / 16; ++c) {
        std::uint32_t b_part[4];
        load_matrices_transposed(b_part, DTile::block(value_tile, 16 * k, 2 * c));
        multiply_add<T>(out[2 * c], a, b_part[0], b_part[1]);
        multiply_add<T>(out[2 * c + 1], a, b_part[2], b_part[3]);
      }
    }
  }

  // Divide by the sums, and send the rows out through the tile of the queries, in whole 16-byte chunks. Each
  // warp overwrites only queries of its own, but they must have arrived.
  copy_async_wait<0>();
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = row_sum[r];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    // A sum of 0 of scores beyond the range of an exponent (4e9) is no row that sees nothing: NaN, as of infinite scores.
    const bool blind = sum == 0 && row_max[r] == -INFINITY;
    const float inverse = sum > 0 ? p.dropout.scale / sum : blind ? 0.0f : NAN;
    const int i = i0 + 8 * r;
    if ((lane & 3) == 0 && i < p.queries) {
      p.statistics[static_cast<std::int64_t>(bh) * p.queries + i] =
          blind ? float2{-INFINITY, 0}
                : float2{row_max[r] * (Extra == Extras::all ? 1.0f : p.scale), __logf(sum)};
    }
#pragma unroll
    for (int c = 0; c < values; ++c) {
      const std::uint32_t to = query_tile + DTile::offset(row + (lane >> 2) + 8 * r, c) + 4 * (lane & 3);
      const std::uint32_t pair = pack<T>(out[c][2 * r] * inverse, out[c][2 * r + 1] * inverse);
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(pair) : "memory");
    }
  }
  __syncwarp();
  constexpr int chunks = D / 8;
#pragma unroll
  for (int n = lane; n < 16 * chunks; n += 32) {
    const int r = n / chunks, chunk = n % chunks;
    if (first + row + r < p.queries && chunk < value_chunks) {
      *reinterpret_cast<uint4*>(row_pointer_mutable(p.out, b, h, first + row + r) + chunk * 8) =
          *reinterpret_cast<const uint4*>(smem + DTile::offset(row + r, chunk));
    }
  }
}

template <class T, int D>
void launch_forward(const Problem& p) {
  using Shape = ForwardShape<D>;
  const int query_blocks = static_cast<int>(gpu::ceil_div(p.queries, Shape::query_block));
  const dim3 grid(
      gpu::blocks_for("scaled_dot_product_attention", std::int64_t{p.batch} * p.heads * query_blocks, 1));
  const Extras extra = extras(p);
  auto kernel =
      extra == Extras::none ? forward_kernel<T, D, Extras::none> : forward_kernel<T, D, Extras::all>;
  if constexpr (kDropoutAlone<D>)
    if (extra == Extras::dropout) kernel = forward_kernel<T, D, Extras::dropout>;
  gpu::launch_waiting("scaled_dot_product_attention", kernel, grid, dim3(Shape::threads), Shape::smem, p,
                      query_blocks);
}

}  // namespace ct::attention::mma
