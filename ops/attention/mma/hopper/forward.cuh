#pragma once

#include <algorithm>

#include <cotangent/ops/attention/mma/hopper/common.cuh>

// Attention forward for Hopper, after FlashAttention-3 (Shah et al. 2024). One warpgroup's first thread
// copies tiles of queries, keys and values into shared memory ahead of time; two or three others own 64
// queries each and compute. While a warpgroup finds the probabilities of one block of keys, the tensor cores
// work on two products for it (the scores of the next block, the values of the last) and on those of its
// neighbours, who take turns in queueing their products.

namespace ct::attention::mma {

template <int D, int Consumers>
struct HopperForward {
  static constexpr int consumers = Consumers;  // warpgroups
  static constexpr int threads = 128 * (consumers + 1);
  static constexpr int query_block = 64 * consumers;
  static constexpr int key_block = 128;
  static constexpr int stages = 2;
  static constexpr int producer_registers = Consumers == 3 ? 32 : 24;
  static constexpr int consumer_registers = Consumers == 3 ? 160 : 240;
  using QueryTile = PanelTile<query_block, D>;
  using KeyTile = PanelTile<key_block, D>;
  static constexpr int barriers = 2 + 4 * stages;
  // 1 KiB to align the tiles, which are: queries, results on their way out, keys, values.
  static constexpr int smem = 1024 + 2 * QueryTile::bytes + 2 * stages * KeyTile::bytes + 8 * barriers;
};

/// Blocks of work in the order in which they should start: heads in sections whose keys and values fit in the
/// L2 cache together, and within a section the late queries, which see the most keys, first.
struct HopperSchedule {
  int blocks;   // of queries, per head
  int heads;    // in all batches
  int section;  // heads per section
  int count;    // of tiles

  struct Work {
    int m, bh;
  };
  __device__ __forceinline__ Work work(int tile) const {
    const int s = tile / (section * blocks), rest = tile % (section * blocks);
    const int width = min(section, heads - s * section);
    return {blocks - 1 - rest / width, s * section + rest % width};
  }
  /// The n-th tile of this block of threads; -1 when there is none. Every other round runs backwards: who got
  /// a long tile gets a short one next.
  __device__ __forceinline__ int tile(int n) const {
    const int grid = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
    const std::int64_t t = std::int64_t{n} * grid + (n & 1 ? grid - 1 - block : block);
    return t < count ? static_cast<int>(t) : -1;
  }
};

template <class T, int D, int Consumers>
__global__ void __launch_bounds__(HopperForward<D, Consumers>::threads, 1)
    hopper_forward_kernel(const __grid_constant__ Problem p, const __grid_constant__ CUtensorMap q_map,
                          const __grid_constant__ CUtensorMap k_map,
                          const __grid_constant__ CUtensorMap v_map, const HopperSchedule schedule) {
  using Shape = HopperForward<D, Consumers>;
  using QueryTile = typename Shape::QueryTile;
  using KeyTile = typename Shape::KeyTile;
  constexpr int BM = Shape::query_block, BN = Shape::key_block, stages = Shape::stages;

  extern __shared__ unsigned char raw_smem[];
  const std::uint32_t queries = (shared_address(raw_smem) + 1023) & ~1023u;
  const std::uint32_t results = queries + QueryTile::bytes;
  const std::uint32_t keys = results + QueryTile::bytes;
  const std::uint32_t values = keys + stages * KeyTile::bytes;
  const std::uint32_t barriers = values + stages * KeyTile::bytes;
  const std::uint32_t q_full = barriers, q_free = barriers + 8;
  const std::uint32_t k_full = barriers + 16, k_free = k_full + 8 * stages;
  const std::uint32_t v_full = k_free + 8 * stages, v_free = v_full + 8 * stages;

  if (threadIdx.x == 0) {
    barrier_init(q_full, 1);
    barrier_init(q_free, 4 * Shape::consumers);  // one arrival per warp
#pragma unroll
    for (int s = 0; s < stages; ++s) {
      barrier_init(k_full + 8 * s, 1);
      barrier_init(v_full + 8 * s, 1);
      barrier_init(k_free + 8 * s, 4 * Shape::consumers);
      barrier_init(v_free + 8 * s, 4 * Shape::consumers);
    }
    barrier_init_fence();
  }
  __syncthreads();

  const int group = p.heads / p.kv_heads;
  if (threadIdx.x < 128) {
    registers_shrink<Shape::producer_registers>();
    if (threadIdx.x != 0) return;
    prefetch_map(&q_map);
    prefetch_map(&k_map);
    prefetch_map(&v_map);
    Ring<stages> ring;
    int q_parity = 1;
    for (int t = 0, tile; (tile = schedule.tile(t)) >= 0; ++t) {
      const auto [m, bh] = schedule.work(tile);
      const int b = bh / p.heads, h = bh % p.heads, kv = h / group;
      const int end = key_blocks_end<BN>(p, m * BM, BM);
      if (end == 0) continue;
      barrier_wait(q_free, q_parity);
      q_parity ^= 1;
      barrier_expect(q_full, QueryTile::bytes);
      QueryTile::load(queries, &q_map, q_full, b, h, m * BM);
      for (int n = end - 1; n >= 0; --n, ring.advance()) {
        const int s = ring.stage;
        barrier_wait(k_free + 8 * s, ring.parity ^ 1);
        barrier_expect(k_full + 8 * s, KeyTile::bytes);
        KeyTile::load(keys + s * KeyTile::bytes, &k_map, k_full + 8 * s, b, kv, n * BN);
        barrier_wait(v_free + 8 * s, ring.parity ^ 1);
        barrier_expect(v_full + 8 * s, KeyTile::bytes);
        KeyTile::load(values + s * KeyTile::bytes, &v_map, v_full + 8 * s, b, kv, n * BN);
      }
    }
  } else {
    registers_grow<Shape::consumer_registers>();
    const int consumer = static_cast<int>(threadIdx.x >> 7) - 1;
    const int warp = static_cast<int>(threadIdx.x >> 5) & 3, lane = static_cast<int>(threadIdx.x & 31);
    const int row = 64 * consumer + 16 * warp;  // of this warp, in the tile
    const float factor = p.scale * kLog2E;
    const int my_turn = 1 + consumer, next_turn = 1 + (consumer + 1) % Shape::consumers;
    if (consumer == Shape::consumers - 1) named_barrier_arrive(next_turn, 256);

    Ring<stages> k_ring, v_ring;
    int q_parity = 0;
    for (int t = 0, tile; (tile = schedule.tile(t)) >= 0; ++t) {
      const auto [m, bh] = schedule.work(tile);
      const int b = bh / p.heads, h = bh % p.heads;
      const int first = m * BM, i0 = first + row + (lane >> 2);
      const int end = key_blocks_end<BN>(p, first, BM);
      // Blocks [seen, end) of keys are only for the queries of later warpgroups.
      const int group_first = first + 64 * consumer;
      const int seen = group_first < p.queries ? key_blocks_end<BN>(p, group_first, 64) : 0;

      float out[D / 2], s[BN / 2];
      std::uint32_t probabilities[BN / 4];
      float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0, 0}, shrink[2];

      const auto start_scores = [&] {  // s = q k^T
        barrier_wait(k_full + 8 * k_ring.stage, k_ring.parity);
        products_begin();
#pragma unroll
        for (int k = 0; k < D / 16; ++k)
          product<T, 0, 0, BN>(s, QueryTile::by_channel(queries, 64 * consumer, k),
                               KeyTile::by_channel(keys + k_ring.stage * KeyTile::bytes, 0, k), k > 0);
        products_commit();
      };
      const auto release_keys = [&] {
        if (lane == 0) barrier_arrive(k_free + 8 * k_ring.stage);
        k_ring.advance();
      };
      const auto start_values = [&](bool add) {  // out += p v
        barrier_wait(v_full + 8 * v_ring.stage, v_ring.parity);
        products_begin();
#pragma unroll
        for (int k = 0; k < BN / 16; ++k) {
          const std::uint32_t a[4] = {probabilities[4 * k], probabilities[4 * k + 1],
                                      probabilities[4 * k + 2], probabilities[4 * k + 3]};
          product_registers<T, 1, D>(out, a, KeyTile::by_row(values + v_ring.stage * KeyTile::bytes, k),
                                     add || k > 0);
        }
        products_commit();
      };
      const auto release_values = [&] {
        if (lane == 0) barrier_arrive(v_free + 8 * v_ring.stage);
        v_ring.advance();
      };
      // Probabilities up to the factor exp(max), and by how much the maxima have risen.
      const auto soften = [&](int n) {
        if ((n + 1) * BN > p.keys || (p.causal && (n + 1) * BN - 1 > group_first + p.causal_offset)) {
          const int j0 = n * BN + 2 * (lane & 3);
#pragma unroll
          for (int c = 0; c < BN / 2; ++c) {
            const int i = i0 + 8 * (c >> 1 & 1), j = j0 + 8 * (c >> 2) + (c & 1);
            if (j >= p.keys || (p.causal && j > i + p.causal_offset)) s[c] = -INFINITY;
          }
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float most = row_max[r];
#pragma unroll
          for (int c = 2 * r; c < BN / 2; c += 4) most = fmaxf(most, fmaxf(s[c], s[c + 1]));
          most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
          most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
          const float base = most == -INFINITY ? 0.0f : log2_base(most * p.scale);
          shrink[r] = exp2_flushed(log2_base(row_max[r] * p.scale) - base);
          row_max[r] = most;
          float sum = row_sum[r] * shrink[r];
#pragma unroll
          for (int c = 2 * r; c < BN / 2; c += 4) {
            s[c] = exp2_flushed(fmaf(s[c], factor, -base));
            s[c + 1] = exp2_flushed(fmaf(s[c + 1], factor, -base));
            sum += s[c] + s[c + 1];
          }
          row_sum[r] = sum;
        }
      };
      const auto round_probabilities = [&] {
#pragma unroll
        for (int c = 0; c < BN / 4; ++c) probabilities[c] = pack<T>(s[2 * c], s[2 * c + 1]);
      };

      if (end > 0) {
        barrier_wait(q_full, q_parity);
        q_parity ^= 1;
      }
      for (int n = end - 1; n >= seen; --n) {
        if (n > 0) {
          named_barrier_sync(my_turn, 256);
          named_barrier_arrive(next_turn, 256);
        }
        barrier_wait(k_full + 8 * k_ring.stage, k_ring.parity);
        release_keys();
        barrier_wait(v_full + 8 * v_ring.stage, v_ring.parity);
        release_values();
      }
      if (seen > 0) {
        start_scores();
        products_wait<0>();
        pin(s);
        release_keys();
        soften(seen - 1);
        round_probabilities();
        for (int n = seen - 2; n >= 0; --n) {
          named_barrier_sync(my_turn, 256);
          start_scores();
          start_values(n < seen - 2);
          named_barrier_arrive(next_turn, 256);
          products_wait<1>();
          pin(s);
          release_keys();
          soften(n);
          products_wait<0>();
          pin(out);
          release_values();
#pragma unroll
          for (int c = 0; c < D / 2; ++c) out[c] *= shrink[c >> 1 & 1];
          round_probabilities();
        }
        if (lane == 0) barrier_arrive(q_free);
        start_values(seen > 1);
        products_wait<0>();
        pin(out);
        release_values();
      } else {
        if (end > 0 && lane == 0) barrier_arrive(q_free);
#pragma unroll
        for (int c = 0; c < D / 2; ++c) out[c] = 0;
      }

      // Divide by the sums, and send the warp's rows out through shared memory in whole 16-byte chunks.
      __syncwarp();
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float sum = row_sum[r];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        // A sum of 0 of scores beyond the range of an exponent (4e9) is no row that sees nothing: NaN, as of infinite scores.
        const bool blind = sum == 0 && row_max[r] == -INFINITY;
        const float inverse = sum > 0 ? 1 / sum : blind ? 0.0f : NAN;
        const int i = i0 + 8 * r;
        if ((lane & 3) == 0 && i < p.queries)
          p.statistics[static_cast<std::int64_t>(bh) * p.queries + i] =
              blind ? float2{-INFINITY, 0} : float2{row_max[r] * p.scale, __logf(sum)};
#pragma unroll
        for (int c = 0; c < D / 8; ++c) {
          const std::uint32_t to = QueryTile::at(results, row + (lane >> 2) + 8 * r, 8 * c + 2 * (lane & 3));
          const std::uint32_t pair = pack<T>(out[4 * c + 2 * r] * inverse, out[4 * c + 2 * r + 1] * inverse);
          asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(pair) : "memory");
        }
      }
      __syncwarp();
      constexpr int chunks = D / 8;
#pragma unroll
      for (int n = lane; n < 16 * chunks; n += 32) {
        const int r = n / chunks, chunk = n % chunks;
        if (first + row + r >= p.queries || chunk >= p.value_dim / 8) continue;
        uint4 x;
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                     : "r"(QueryTile::at(results, row + r, 8 * chunk)));
        *reinterpret_cast<uint4*>(row_pointer_mutable(p.out, b, h, first + row + r) + chunk * 8) = x;
      }
    }
  }
}

template <class T, int D, int Consumers>
void launch_hopper_forward(const Problem& p) {
  using Shape = HopperForward<D, Consumers>;
  HopperSchedule schedule;
  schedule.blocks = static_cast<int>(gpu::ceil_div(p.queries, Shape::query_block));
  schedule.heads = p.batch * p.heads;
  const std::int64_t head_bytes =
      std::int64_t{p.keys} * (p.head_dim + p.value_dim) * 2 * p.kv_heads / p.heads;
  const std::int64_t section = (std::int64_t{32} << 20) / (head_bytes + 1);
  schedule.section = static_cast<int>(std::clamp<std::int64_t>(section, 1, schedule.heads));
  schedule.count = static_cast<int>(
      gpu::blocks_for("scaled_dot_product_attention", std::int64_t{schedule.blocks} * schedule.heads, 1));
  const CUtensorMap q = tensor_map(p, p.q, p.heads, p.queries, p.head_dim, Shape::query_block);
  const CUtensorMap k = tensor_map(p, p.k, p.kv_heads, p.keys, p.head_dim, Shape::key_block);
  const CUtensorMap v = tensor_map(p, p.v, p.kv_heads, p.keys, p.value_dim, Shape::key_block);
  const int grid = std::min(schedule.count, gpu::multiprocessors());
  gpu::launch("scaled_dot_product_attention", hopper_forward_kernel<T, D, Consumers>,
              dim3(static_cast<unsigned>(grid)), dim3(Shape::threads), Shape::smem, p, q, k, v, schedule);
}

}  // namespace ct::attention::mma
