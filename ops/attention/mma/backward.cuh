#pragma once

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/attention/mma/common.cuh>
#include <cotangent/ops/attention/mma/turns.cuh>

// Attention backward with warp-level tensor-core instructions. With p the probabilities, g the cotangent of
// the result, and delta_i = sum_d g_id out_id:
//
//     dv = p^T g        ds = p * (g v^T - delta)        dk = scale ds^T q        dq = scale ds k
//
// A block of threads owns KeyBlock keys, keeps their dk and dv in registers and walks over the queries that
// see them. Scores are computed transposed, key by query, each warp 16 keys: so p^T and ds^T come out in the
// layout in which the products with g and q take them from registers. Only ds goes through shared memory,
// because dq sums over the keys of all warps; across blocks it is summed in turns (see the turns header).
//
// Head dimensions above 128 have too many accumulators: several blocks (slices) compute the same ds, and
// each the output channels of its slice.

namespace ct::attention::mma {

template <int D>
struct BackwardShape {
  static constexpr int slice = D <= 128 ? D : 128;  // output channels of a block
  static constexpr int slices = D / slice;
  static constexpr int warps = D <= 128 ? 8 : 4;
  static constexpr int threads = 32 * warps;
  static constexpr int key_block = 16 * warps;
  static constexpr int query_block = D <= 128 ? 64 : 32;
  // dq of a query block: warps in a grid of row groups by column groups.
  static constexpr int row_groups = query_block / 16;
  static constexpr int column_groups = warps / row_groups;
  static constexpr int group_columns = slice / column_groups;
  static constexpr int key_bytes = key_block * 2 * D;      // of keys, and again of values
  static constexpr int query_bytes = query_block * 2 * D;  // of queries, and again of cotangents
  static constexpr int ds_bytes = key_block * 2 * query_block;
  static constexpr int terms_bytes = 2 * 4 * query_block;
  static constexpr int stage_bytes = 2 * query_bytes + terms_bytes;
  static constexpr int smem = 2 * key_bytes + 2 * stage_bytes + ds_bytes;
};

template <class T, int D, Extras Extra>
__global__ void __launch_bounds__(BackwardShape<D>::threads, 1)
    backward_kernel(const __grid_constant__ BackwardProblem p, int key_blocks, int query_blocks) {
  gpu::wait_for_previous();
  using Shape = BackwardShape<D>;
  using DTile = Tile<D>;
  constexpr int BM = Shape::query_block, BN = Shape::key_block, threads = Shape::threads;
  using DsTile = Tile<BM>;
  constexpr int steps = D / 16, columns = BM / 8, outs = Shape::slice / 8;

  extern __shared__ __align__(128) unsigned char smem[];
  const std::uint32_t key_tile = shared_address(smem);
  const std::uint32_t value_tile = key_tile + Shape::key_bytes;
  const std::uint32_t stages = value_tile + Shape::key_bytes;
  const std::uint32_t ds_tile = stages + 2 * Shape::stage_bytes;

  const int ticket = take_ticket(p.turns);
  const int j = key_blocks - 1 - ticket % key_blocks;
  const int slice = ticket / key_blocks % Shape::slices;
  const int bkv = ticket / key_blocks / Shape::slices;
  const int b = bkv / p.kv_heads, kv = bkv % p.kv_heads, group = p.heads / p.kv_heads;
  const int warp = static_cast<int>(threadIdx.x >> 5), lane = static_cast<int>(threadIdx.x & 31);
  const int row = 16 * warp;  // of this warp, in the tile of keys
  const int first_key = j * BN;
  const int key_chunks = p.head_dim / 8, value_chunks = p.value_dim / 8;
  const int slice_chunk = slice * (Shape::slice / 8);

  // Query blocks [begin, query_blocks) see these keys, for each of the group's heads.
  int begin = 0;
  if (p.causal) {
    const std::int64_t from = std::int64_t{first_key} - p.causal_offset;
    begin = from <= 0 ? 0 : static_cast<int>(min(from / BM, std::int64_t{query_blocks}));
  }
  const int span = query_blocks - begin;
  const int count = span * group;

  const auto load_step = [&](int n, int stage) {
    const int h = kv * group + n / span, first = (begin + n % span) * BM;
    const std::uint32_t to = stages + stage * Shape::stage_bytes;
    DTile::template load<BM, threads>(to, row_pointer(p.q, b, h, first), p.q.position, p.queries - first,
                                      key_chunks);
    DTile::template load<BM, threads>(to + Shape::query_bytes, row_pointer(p.grad_out, b, h, first),
                                      p.grad_out.position, p.queries - first, value_chunks);
    const int t = static_cast<int>(threadIdx.x);
    if (t < 2 * BM) {
      const std::int64_t rows = std::int64_t{p.batch} * p.heads * p.queries;
      const int i = first + t % BM;
      const float* from = p.row_terms + (t < BM ? 0 : rows) + (std::int64_t{b} * p.heads + h) * p.queries +
                          (i < p.queries ? i : 0);
      copy_async_4(to + 2 * Shape::query_bytes + 4 * t, from, i < p.queries);
    }
    copy_async_commit();
  };

  DTile::template load<BN, threads>(key_tile, row_pointer(p.k, b, kv, first_key), p.k.position,
                                    p.keys - first_key, key_chunks);
  DTile::template load<BN, threads>(value_tile, row_pointer(p.v, b, kv, first_key), p.v.position,
                                    p.keys - first_key, value_chunks);
  copy_async_commit();
  if (count > 0) load_step(0, 0);

  float dk[outs][4] = {}, dv[outs][4] = {};
  const float to_log2 = p.scale * kLog2E;
  [[maybe_unused]] const GeneratorState draw =
      Extra != Extras::none ? p.dropout.draw.now() : GeneratorState{};
  const bool large = *p.large != 0;
  // Handed on one step late: to the next block once all threads have written.
  int* previous_turn = nullptr;
  int previous_turns = 0;

  for (int n = 0, stage = 0; n < count; ++n, stage ^= 1) {
    const int h = kv * group + n / span, m = begin + n % span, first = m * BM;
    const int bh = b * p.heads + h;
    const std::uint32_t query_tile = stages + stage * Shape::stage_bytes;
    const std::uint32_t grad_tile = query_tile + Shape::query_bytes;
    const float* terms = reinterpret_cast<const float*>(smem + (grad_tile - key_tile) + Shape::query_bytes);
    const float* delta = terms + BM;

    copy_async_wait<0>();
    __syncthreads();
    if (previous_turn && threadIdx.x == 0) give_turn(previous_turn, previous_turns);
    if (n + 1 < count) load_step(n + 1, stage ^ 1);

    // s^T = k q^T
    float s[columns][4] = {};
#pragma unroll
    for (int k = 0; k < steps; ++k) {
      std::uint32_t a[4];
      load_matrices(a, DTile::block(key_tile, row, 2 * k));
#pragma unroll
      for (int c = 0; c < BM / 16; ++c) {
        std::uint32_t b_part[4];
        load_matrices(b_part, DTile::block_columns(query_tile, 16 * c, 2 * k));
        multiply_add<T>(s[2 * c], a, b_part[0], b_part[1]);
        multiply_add<T>(s[2 * c + 1], a, b_part[2], b_part[3]);
      }
    }

    const int j0 = first_key + row + (lane >> 2);  // keys j0 and j0 + 8
    const int i0 = first + 2 * (lane & 3);         // queries i0 + 8 c and the next
    const bool cut = first_key + BN > p.keys || first + BM > p.queries ||
                     (p.causal && first_key + BN - 1 > first + p.causal_offset);
    // The same as in forward: a mask is added to the scores before anything is taken from them.
    if constexpr (Extra == Extras::all) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[c][e] = __fmul_rn(s[c][e], p.scale);
      }
      visit_mask<T, columns>(
          p, b, h, i0, j0, [](int c, int e) { return 8 * c + (e & 1); },
          [](int, int e) { return 8 * (e >> 1); },
          [&](int c, int e, float term) { s[c][e] = masked(s[c][e], term); });
    }
    const float factor = Extra == Extras::all ? kLog2E : to_log2;
    if (large) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int i = i0 + 8 * c + (e & 1);
          if constexpr (Extra == Extras::all) {
            const float2 row = p.statistics[std::int64_t{bh} * p.queries + min(i, p.queries - 1)];
            s[c][e] = row.x == -INFINITY ? row.x : (s[c][e] - row.x) * kLog2E - row.y * kLog2E;
          } else {
            const float2 row = log2_statistics(p, bh, i);
            s[c][e] = fmaf(s[c][e], to_log2, -row.x) - row.y;
          }
        }
      }
    } else {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        const float2 l = *reinterpret_cast<const float2*>(terms + 8 * c + 2 * (lane & 3));
#pragma unroll
        for (int e = 0; e < 4; ++e) s[c][e] = fmaf(s[c][e], factor, e & 1 ? -l.y : -l.x);
      }
    }
#pragma unroll
    for (int c = 0; c < columns; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = i0 + 8 * c + (e & 1), key = j0 + 8 * (e >> 1);
        if (cut && (key >= p.keys || i >= p.queries || (p.causal && key > i + p.causal_offset)))
          s[c][e] = -INFINITY;
        s[c][e] = exp2_flushed(s[c][e]);
      }
    }

    // dp^T = v g^T
    float ds[columns][4] = {};
#pragma unroll
    for (int k = 0; k < steps; ++k) {
      std::uint32_t a[4];
      load_matrices(a, DTile::block(value_tile, row, 2 * k));
#pragma unroll
      for (int c = 0; c < BM / 16; ++c) {
        std::uint32_t b_part[4];
        load_matrices(b_part, DTile::block_columns(grad_tile, 16 * c, 2 * k));
        multiply_add<T>(ds[2 * c], a, b_part[0], b_part[1]);
        multiply_add<T>(ds[2 * c + 1], a, b_part[2], b_part[3]);
      }
    }

    // ds^T = p^T * (dp^T - delta); with dropout dp^T and the p^T that dv sees are dropped alike.
    std::uint32_t p_pairs[columns][2], ds_pairs[columns][2];
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      const float2 d = *reinterpret_cast<const float2*>(delta + 8 * c + 2 * (lane & 3));
      float z[4] = {1, 1, 1, 1};
      if constexpr (Extra != Extras::none) {
        if (p.dropout.active) {
          const std::uint64_t element = (static_cast<std::uint64_t>(bh) * p.queries + i0 + 8 * c) * p.keys;
          if (p.keys % 4 == 0) {
            // The 4 lanes that hold 4 neighbouring keys each draw one of the 4 blocks that they share.
            const int r = (lane >> 2) & 3;
            const std::uint64_t at =
                element + (r & 1 ? p.keys : 0) +
                static_cast<std::uint64_t>(first_key + row + (lane >> 4) * 4 + 8 * (r >> 1));
            std::uint32_t bits = kept_bits(p.dropout, draw, at / 4) << (4 * r);
            bits |= __shfl_xor_sync(0xffffffffu, bits, 4);
            bits |= __shfl_xor_sync(0xffffffffu, bits, 8);
            bits >>= r;
#pragma unroll
            for (int e = 0; e < 4; ++e) z[e] = bits >> (4 * e) & 1u ? p.dropout.scale : 0.0f;
          } else {
#pragma unroll
            for (int e = 0; e < 4; ++e)
              z[e] = kept(p.dropout, draw, element + (e & 1 ? p.keys : 0) + j0 + 8 * (e >> 1))
                         ? p.dropout.scale
                         : 0.0f;
          }
        }
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        ds[c][e] = s[c][e] * ((Extra != Extras::none ? ds[c][e] * z[e] : ds[c][e]) - (e & 1 ? d.y : d.x));
        if constexpr (Extra != Extras::none) s[c][e] *= z[e];
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        p_pairs[c][r] = pack<T>(s[c][2 * r], s[c][2 * r + 1]);
        ds_pairs[c][r] = pack<T>(ds[c][2 * r], ds[c][2 * r + 1]);
        const std::uint32_t to = ds_tile + DsTile::offset(row + (lane >> 2) + 8 * r, c) + 4 * (lane & 3);
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(ds_pairs[c][r]) : "memory");
      }
    }

    // dv += p^T g and dk += ds^T q
#pragma unroll
    for (int k = 0; k < BM / 16; ++k) {
      const std::uint32_t pa[4] = {p_pairs[2 * k][0], p_pairs[2 * k][1], p_pairs[2 * k + 1][0],
                                   p_pairs[2 * k + 1][1]};
      const std::uint32_t da[4] = {ds_pairs[2 * k][0], ds_pairs[2 * k][1], ds_pairs[2 * k + 1][0],
                                   ds_pairs[2 * k + 1][1]};
#pragma unroll
      for (int c = 0; c < outs / 2; ++c) {
        std::uint32_t b_part[4];
        load_matrices_transposed(b_part, DTile::block(grad_tile, 16 * k, slice_chunk + 2 * c));
        multiply_add<T>(dv[2 * c], pa, b_part[0], b_part[1]);
        multiply_add<T>(dv[2 * c + 1], pa, b_part[2], b_part[3]);
        load_matrices_transposed(b_part, DTile::block(query_tile, 16 * k, slice_chunk + 2 * c));
        multiply_add<T>(dk[2 * c], da, b_part[0], b_part[1]);
        multiply_add<T>(dk[2 * c + 1], da, b_part[2], b_part[3]);
      }
    }

    // dq = ds k over the keys of this block, added to what later key blocks have found.
    const std::int64_t place = (std::int64_t{slice} * p.batch * p.heads + bh) * query_blocks + m;
    int* turn = p.turns + 1 + place;
    const int turns_before = key_blocks_end<BN>(p, first, BM) - 1 - j;
    if (threadIdx.x == 0 && turns_before > 0) await_turn(turn, turns_before);
    __syncthreads();
    const int q_row = 16 * (warp % Shape::row_groups);
    const int q_column = Shape::group_columns * (warp / Shape::row_groups);
    constexpr int q_tiles = Shape::group_columns / 8;
    float dq[q_tiles][4] = {};
#pragma unroll
    for (int k = 0; k < BN / 16; ++k) {
      std::uint32_t a[4];
      load_matrices_transposed(a, DsTile::block_columns(ds_tile, 16 * k, q_row / 8));
#pragma unroll
      for (int c = 0; c < q_tiles / 2; ++c) {
        std::uint32_t b_part[4];
        load_matrices_transposed(b_part, DTile::block(key_tile, 16 * k, slice_chunk + q_column / 8 + 2 * c));
        multiply_add<T>(dq[2 * c], a, b_part[0], b_part[1]);
        multiply_add<T>(dq[2 * c + 1], a, b_part[2], b_part[3]);
      }
    }
    float4* partial = reinterpret_cast<float4*>(p.partial_q + place * (BM * Shape::slice)) + threadIdx.x;
    if (turns_before > 0) {
#pragma unroll
      for (int c = 0; c < q_tiles; ++c) {
        const float4 sum = __ldcg(partial + c * threads);
        dq[c][0] += sum.x, dq[c][1] += sum.y, dq[c][2] += sum.z, dq[c][3] += sum.w;
      }
    }
    if (j > 0) {
#pragma unroll
      for (int c = 0; c < q_tiles; ++c)
        __stcg(partial + c * threads, make_float4(dq[c][0], dq[c][1], dq[c][2], dq[c][3]));
      previous_turn = turn;
      previous_turns = turns_before + 1;
    } else {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int i = first + q_row + (lane >> 2) + 8 * r;
        if (i >= p.queries) continue;
        std::uint16_t* to = row_pointer_mutable(p.grad_q, b, h, i) + slice * Shape::slice + q_column;
#pragma unroll
        for (int c = 0; c < q_tiles; ++c) {
          if (slice * Shape::slice + q_column + 8 * c < p.head_dim)
            *reinterpret_cast<std::uint32_t*>(to + 8 * c + 2 * (lane & 3)) =
                pack<T>(dq[c][2 * r] * p.scale, dq[c][2 * r + 1] * p.scale);
        }
      }
    }
  }

  copy_async_wait<0>();
  __syncthreads();
  if (previous_turn && threadIdx.x == 0) give_turn(previous_turn, previous_turns);

    // dk and dv leave through the tiles of keys and values.
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int c = 0; c < outs; ++c) {
      const std::uint32_t at = DTile::offset(row + (lane >> 2) + 8 * r, c) + 4 * (lane & 3);
      const std::uint32_t dk_pair = pack<T>(dk[c][2 * r] * p.scale, dk[c][2 * r + 1] * p.scale);
      const std::uint32_t dv_pair = pack<T>(dv[c][2 * r], dv[c][2 * r + 1]);
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(key_tile + at), "r"(dk_pair) : "memory");
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(value_tile + at), "r"(dv_pair) : "memory");
    }
  }
  __syncwarp();
#pragma unroll
  for (int n = lane; n < 16 * outs; n += 32) {
    const int r = n / outs, chunk = n % outs, key = first_key + row + r;
    if (key >= p.keys) continue;
    const unsigned char* from = smem + DTile::offset(row + r, chunk);
    const int channel = 8 * (slice_chunk + chunk);
    if (channel < p.head_dim)
      *reinterpret_cast<uint4*>(row_pointer_mutable(p.grad_k, b, kv, key) + channel) =
          *reinterpret_cast<const uint4*>(from);
    if (channel < p.value_dim)
      *reinterpret_cast<uint4*>(row_pointer_mutable(p.grad_v, b, kv, key) + channel) =
          *reinterpret_cast<const uint4*>(from + Shape::key_bytes);
  }

  // Queries that see nothing at all come before the first that sees key 0.
  if (j == 0 && slice == 0 && begin > 0) zero_queries<threads>(p, b, kv * group, group, begin * BM);
}

template <class T, int D>
void launch_backward(BackwardProblem p) {
  using Shape = BackwardShape<D>;
  const int key_blocks = static_cast<int>(gpu::ceil_div(p.keys, Shape::key_block));
  const int query_blocks = static_cast<int>(gpu::ceil_div(p.queries, Shape::query_block));
  clear_turns(p, std::int64_t{Shape::slices} * p.batch * p.heads * query_blocks);
  launch_row_terms<T>(p, p.queries);
  const dim3 grid(gpu::blocks_for("scaled_dot_product_attention",
                                  std::int64_t{p.batch} * p.kv_heads * Shape::slices * key_blocks, 1));
  const Extras extra = extras(p);
  auto kernel =
      extra == Extras::none ? backward_kernel<T, D, Extras::none> : backward_kernel<T, D, Extras::all>;
  if constexpr (kDropoutAlone<D>)
    if (extra == Extras::dropout) kernel = backward_kernel<T, D, Extras::dropout>;
  gpu::launch_waiting("scaled_dot_product_attention", kernel, grid, dim3(Shape::threads), Shape::smem, p,
                      key_blocks, query_blocks);
}

}  // namespace ct::attention::mma
