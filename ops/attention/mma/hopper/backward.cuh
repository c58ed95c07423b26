#pragma once

#include <algorithm>

#include <cotangent/ops/attention/mma/hopper/common.cuh>
#include <cotangent/ops/attention/mma/turns.cuh>

// Attention backward for Hopper. The derivation and the summing of dq in turns are those of the kernels with
// warp-level products; what differs is who does what. A block of threads owns 128 keys and walks over the
// queries that see them. Two warpgroups compute, each with 64 of the keys: scores transposed, so that p^T and
// ds^T are left operands in registers for dv and dk. They exchange ds^T through shared memory, since dq sums
// over all 128 keys, and share the work of dq. A third warpgroup keeps the data moving: one thread copies
// queries and cotangents in, another adds each block's dq to the partial sum in global memory when its turn
// comes, so that those who compute never wait for other blocks.

namespace ct::attention::mma {

template <int D>
struct HopperBackward {
  static constexpr int threads = 3 * 128;
  static constexpr int key_block = 128;
  static constexpr int query_block = D == 64 ? 128 : 64;
  static constexpr int stages = 2;
  using KeyTile = PanelTile<key_block, D>;
  using QueryTile = PanelTile<query_block, D>;
  using DsTile = PanelTile<key_block, query_block>;  // ds^T, key by query; two of them
  static constexpr int partial_bytes = query_block * D * 4;
  static constexpr int terms_bytes = query_block * 4;
  static constexpr int barriers = 2 + 4 * stages + 2 + 5;  // and two tickets
  static constexpr int smem = 1024 + 2 * KeyTile::bytes + 2 * stages * (QueryTile::bytes + terms_bytes) +
                              2 * DsTile::bytes + partial_bytes + 8 * barriers;
};

template <class T, int D>
__global__ void __launch_bounds__(HopperBackward<D>::threads, 1)
    hopper_backward_kernel(const __grid_constant__ BackwardProblem p,
                           const __grid_constant__ CUtensorMap q_map,
                           const __grid_constant__ CUtensorMap k_map,
                           const __grid_constant__ CUtensorMap v_map,
                           const __grid_constant__ CUtensorMap g_map, int key_blocks, int query_blocks,
                           int tickets) {
  using Shape = HopperBackward<D>;
  using KeyTile = typename Shape::KeyTile;
  using QueryTile = typename Shape::QueryTile;
  using DsTile = typename Shape::DsTile;
  constexpr int BM = Shape::query_block, BN = Shape::key_block, stages = Shape::stages;

  extern __shared__ unsigned char raw_smem[];
  const std::uint32_t key_tile = (shared_address(raw_smem) + 1023) & ~1023u;
  const std::uint32_t value_tile = key_tile + KeyTile::bytes;
  const std::uint32_t query_tiles = value_tile + KeyTile::bytes;
  const std::uint32_t grad_tiles = query_tiles + stages * QueryTile::bytes;
  const std::uint32_t ds_tiles = grad_tiles + stages * QueryTile::bytes;
  const std::uint32_t partial = ds_tiles + 2 * DsTile::bytes;
  const std::uint32_t log_sum_terms = partial + Shape::partial_bytes;
  const std::uint32_t delta_terms = log_sum_terms + stages * Shape::terms_bytes;
  const std::uint32_t kv_full = delta_terms + stages * Shape::terms_bytes, kv_free = kv_full + 8;
  const std::uint32_t q_full = kv_free + 8, q_free = q_full + 8 * stages;
  const std::uint32_t g_full = q_free + 8 * stages, g_free = g_full + 8 * stages;
  const std::uint32_t dq_full = g_free + 8 * stages, dq_free = dq_full + 8;
  const std::uint32_t ticket_full = dq_free + 8, ticket_free = ticket_full + 16,
                      ticket_slots = ticket_free + 16;

  if (threadIdx.x == 0) {
    barrier_init(kv_full, 1);
    barrier_init(kv_free, 8);  // one arrival per warp that computes
#pragma unroll
    for (int s = 0; s < stages; ++s) {
      barrier_init(q_full + 8 * s, 1);
      barrier_init(g_full + 8 * s, 1);
      barrier_init(q_free + 8 * s, 8);
      barrier_init(g_free + 8 * s, 8);
    }
    barrier_init(dq_full, 8);
    barrier_init(dq_free, 1);
    for (int s = 0; s < 2; ++s) {
      barrier_init(ticket_full + 8 * s, 1);
      barrier_init(ticket_free + 8 * s, 9);
    }
    barrier_init_fence();
  }
  __syncthreads();

  // A ticket stands for the keys of one block: later ones first, see the turns header.
  struct Work {
    int j, b, kv, begin, span, count;
  };
  const int group = p.heads / p.kv_heads;
  const auto work = [&](int ticket) {
    Work w;
    w.j = key_blocks - 1 - ticket % key_blocks;
    const int bkv = ticket / key_blocks;
    w.b = bkv / p.kv_heads, w.kv = bkv % p.kv_heads;
    // Query blocks [begin, query_blocks) see these keys, for each of the group's heads.
    w.begin = 0;
    if (p.causal) {
      const std::int64_t from = std::int64_t{w.j} * BN - p.causal_offset;
      w.begin = from <= 0 ? 0 : static_cast<int>(min(from / BM, std::int64_t{query_blocks}));
    }
    w.span = query_blocks - w.begin;
    w.count = w.span * group;
    return w;
  };
  // The next ticket, which the copying thread has taken.
  Ring<2> ticket_ring;
  const auto next_ticket = [&] {
    barrier_wait(ticket_full + 8 * ticket_ring.stage, ticket_ring.parity);
    int ticket;
    asm volatile("ld.shared.s32 %0, [%1];"
                 : "=r"(ticket)
                 : "r"(ticket_slots + 4 * ticket_ring.stage)
                 : "memory");
    return ticket;
  };
  const auto release_ticket = [&] {
    barrier_arrive(ticket_free + 8 * ticket_ring.stage);
    ticket_ring.advance();
  };

  if (threadIdx.x < 128) {
    registers_shrink<40>();
    if (threadIdx.x == 0) {
      prefetch_map(&q_map);
      prefetch_map(&g_map);
      const std::int64_t padded = std::int64_t{query_blocks} * BM;
      const float* delta = p.row_terms + p.batch * p.heads * padded;
      Ring<stages> ring;
      for (int kv_parity = 1;; kv_parity ^= 1) {
        const int ticket = atomicAdd(p.turns, 1);
        barrier_wait(ticket_free + 8 * ticket_ring.stage, ticket_ring.parity ^ 1);
        asm volatile("st.shared.s32 [%0], %1;" ::"r"(ticket_slots + 4 * ticket_ring.stage), "r"(ticket)
                     : "memory");
        barrier_arrive(ticket_full + 8 * ticket_ring.stage);
        ticket_ring.advance();
        if (ticket >= tickets) break;
        const Work w = work(ticket);
        barrier_wait(kv_free, kv_parity);
        barrier_expect(kv_full, 2 * KeyTile::bytes);
        KeyTile::load(key_tile, &k_map, kv_full, w.b, w.kv, w.j * BN);
        KeyTile::load(value_tile, &v_map, kv_full, w.b, w.kv, w.j * BN);
        for (int n = 0; n < w.count; ++n, ring.advance()) {
          const int h = w.kv * group + n / w.span, first = (w.begin + n % w.span) * BM, s = ring.stage;
          const std::int64_t row = (std::int64_t{w.b} * p.heads + h) * padded + first;
          barrier_wait(q_free + 8 * s, ring.parity ^ 1);
          barrier_expect(q_full + 8 * s, QueryTile::bytes + Shape::terms_bytes);
          QueryTile::load(query_tiles + s * QueryTile::bytes, &q_map, q_full + 8 * s, w.b, h, first);
          copy_run(log_sum_terms + s * Shape::terms_bytes, p.row_terms + row, Shape::terms_bytes,
                   q_full + 8 * s);
          barrier_wait(g_free + 8 * s, ring.parity ^ 1);
          barrier_expect(g_full + 8 * s, QueryTile::bytes + Shape::terms_bytes);
          QueryTile::load(grad_tiles + s * QueryTile::bytes, &g_map, g_full + 8 * s, w.b, h, first);
          copy_run(delta_terms + s * Shape::terms_bytes, delta + row, Shape::terms_bytes, g_full + 8 * s);
        }
      }
    } else if (threadIdx.x == 32) {
      int parity = 0;
      for (int ticket; (ticket = next_ticket()) < tickets;) {
        release_ticket();
        const Work w = work(ticket);
        for (int n = 0; n < w.count; ++n, parity ^= 1) {
          const int h = w.kv * group + n / w.span, m = w.begin + n % w.span;
          const std::int64_t place = (std::int64_t{w.b} * p.heads + h) * query_blocks + m;
          int* turn = p.turns + 1 + place;
          const int turns_before = key_blocks_end<BN>(p, m * BM, BM) - 1 - w.j;
          float* to = p.partial_q + place * (BM * D);
          barrier_wait(dq_full, parity);
          if (turns_before > 0) {
            await_turn(turn, turns_before);
            add_run(to, partial, Shape::partial_bytes);
          } else {
            store_run(to, partial, Shape::partial_bytes);
          }
          stores_commit();
          stores_wait_read();
          barrier_arrive(dq_free);
          stores_wait();
          give_turn(turn, turns_before + 1);
        }
      }
    }
  } else {
    registers_grow<232>();
    const int consumer = static_cast<int>(threadIdx.x >> 7) - 1, thread = static_cast<int>(threadIdx.x) & 127;
    const int warp = thread >> 5, lane = thread & 31;
    const int row = 64 * consumer + 16 * warp;  // of this warp, in the tile of keys
    const float to_log2 = p.scale * kLog2E;
    const bool large = *p.large != 0;

    Ring<stages> ring;
    int step = 0, kv_parity = 0;  // steps count on from one ticket to the next
    for (int ticket; (ticket = next_ticket()) < tickets; kv_parity ^= 1) {
      __syncwarp();
      if (lane == 0) barrier_arrive(ticket_free + 8 * ticket_ring.stage);
      ticket_ring.advance();
      const Work w = work(ticket);
      const int first_key = w.j * BN;
      float dk[D / 2], dv[D / 2];
#pragma unroll
      for (int c = 0; c < D / 2; ++c) dk[c] = dv[c] = 0;

      barrier_wait(kv_full, kv_parity);
      for (int n = 0; n < w.count; ++n, ++step) {
        const int first = (w.begin + n % w.span) * BM, s_ = ring.stage;
        const std::uint32_t query_tile = query_tiles + s_ * QueryTile::bytes;
        const std::uint32_t grad_tile = grad_tiles + s_ * QueryTile::bytes;
        const std::uint32_t ds_tile = ds_tiles + (step & 1) * DsTile::bytes;
        float s[BM / 2], dp[BM / 2];

        barrier_wait(q_full + 8 * s_, ring.parity);
        products_begin();
#pragma unroll
        for (int k = 0; k < D / 16; ++k)  // s^T = k q^T
          product<T, 0, 0, BM>(s, KeyTile::by_channel(key_tile, 64 * consumer, k),
                               QueryTile::by_channel(query_tile, 0, k), k > 0);
        products_commit();
        barrier_wait(g_full + 8 * s_, ring.parity);
        products_begin();
#pragma unroll
        for (int k = 0; k < D / 16; ++k)  // dp^T = v g^T
          product<T, 0, 0, BM>(dp, KeyTile::by_channel(value_tile, 64 * consumer, k),
                               QueryTile::by_channel(grad_tile, 0, k), k > 0);
        products_commit();
        products_wait<1>();
        pin(s);

        const int j0 = first_key + row + (lane >> 2);  // keys j0 and j0 + 8
        const std::uint32_t terms = s_ * Shape::terms_bytes + 8 * (lane & 3);
        const bool cut =
            first_key + BN > p.keys || (p.causal && first_key + 64 * consumer + 63 > first + p.causal_offset);
        std::uint32_t pairs[BM / 4];
        const auto soften = [&](const auto& log2_of) {
#pragma unroll
          for (int c = 0; c < BM / 8; ++c) {
            float2 log_sums;
            asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                         : "=f"(log_sums.x), "=f"(log_sums.y)
                         : "r"(log_sum_terms + terms + 32 * c));
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              const int i = first + 8 * c + 2 * (lane & 3) + (e & 1);
              float x = log2_of(s[4 * c + e], e & 1 ? log_sums.y : log_sums.x, i);
              if (cut) {
                const int key = j0 + 8 * (e >> 1);
                if (key >= p.keys || (p.causal && key > i + p.causal_offset)) x = -INFINITY;
              }
              s[4 * c + e] = exp2_flushed(x);
            }
            pairs[2 * c] = pack<T>(s[4 * c], s[4 * c + 1]);
            pairs[2 * c + 1] = pack<T>(s[4 * c + 2], s[4 * c + 3]);
          }
        };
        if (large)
          soften([&, bh = std::int64_t{w.b} * p.heads + w.kv * group + n / w.span](float x, float, int i) {
            const float2 row = log2_statistics(p, bh, i);
            return fmaf(x, to_log2, -row.x) - row.y;
          });
        else
          soften([&](float x, float log_sum, int) { return fmaf(x, to_log2, -log_sum); });

        products_begin();
#pragma unroll
        for (int k = 0; k < BM / 16; ++k) {  // dv += p^T g
          const std::uint32_t a[4] = {pairs[4 * k], pairs[4 * k + 1], pairs[4 * k + 2], pairs[4 * k + 3]};
          product_registers<T, 1, D>(dv, a, QueryTile::by_row(grad_tile, k), 1);
        }
        products_commit();
        products_wait<1>();
        pin(dp);

        std::uint32_t ds_pairs[BM / 4];
#pragma unroll
        for (int c = 0; c < BM / 8; ++c) {  // ds^T = p^T * (dp^T - delta)
          float2 delta;
          asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                       : "=f"(delta.x), "=f"(delta.y)
                       : "r"(delta_terms + terms + 32 * c));
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const float2 probability = unpack<T>(pairs[2 * c + r]);  // in f32 there are no registers for them
            ds_pairs[2 * c + r] = pack<T>(probability.x * (dp[4 * c + 2 * r] - delta.x),
                                          probability.y * (dp[4 * c + 2 * r + 1] - delta.y));
            const std::uint32_t to = DsTile::at(ds_tile, row + (lane >> 2) + 8 * r, 8 * c + 2 * (lane & 3));
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(ds_pairs[2 * c + r]) : "memory");
          }
        }
        async_proxy_fence();
        named_barrier_sync(1, 256);

        // dq = ds k: of the 128 queries 64 per warpgroup, or of the 128 channels 64.
        float dq[32];
        products_begin();
#pragma unroll
        for (int k = 0; k < BN / 16; ++k) {
          if constexpr (D == 64) {
            product<T, 1, 1, 64>(dq, DsTile::by_row(ds_tile + consumer * DsTile::panel_bytes, k),
                                 KeyTile::by_row(key_tile, k), k > 0);
          } else {
            product<T, 1, 1, 64>(dq, DsTile::by_row(ds_tile, k),
                                 KeyTile::by_row(key_tile + consumer * KeyTile::panel_bytes, k), k > 0);
          }
        }
        products_commit();
#pragma unroll
        for (int k = 0; k < BM / 16; ++k) {  // dk += ds^T q
          const std::uint32_t a[4] = {ds_pairs[4 * k], ds_pairs[4 * k + 1], ds_pairs[4 * k + 2],
                                      ds_pairs[4 * k + 3]};
          product_registers<T, 1, D>(dk, a, QueryTile::by_row(query_tile, k), 1);
        }
        products_commit();
        ring.advance();
        products_wait<1>();
        pin(dq);
        pin(dv);
        __syncwarp();  // all lanes have read their terms of the rows
        if (lane == 0) barrier_arrive(g_free + 8 * s_);

        barrier_wait(dq_free, (step & 1) ^ 1);
        const std::uint32_t to = partial + consumer * (Shape::partial_bytes / 2) + 16 * thread;
#pragma unroll
        for (int c = 0; c < 8; ++c)
          asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to + 2048 * c), "f"(dq[4 * c]),
                       "f"(dq[4 * c + 1]), "f"(dq[4 * c + 2]), "f"(dq[4 * c + 3])
                       : "memory");
        async_proxy_fence();
        __syncwarp();
        if (lane == 0) barrier_arrive(dq_full);

        products_wait<0>();
        pin(dk);
        __syncwarp();
        if (lane == 0) barrier_arrive(q_free + 8 * s_);
      }
      if (lane == 0) barrier_arrive(kv_free);

      // dk and dv leave through the tiles of ds, when no thread reads those any more. A warp's rows lie in the
      // same place in both kinds of tile, so what follows concerns no other warp.
      named_barrier_sync(1, 256);
      const auto send = [&](const float(&x)[D / 2], float scale, const Rows& rows, int width) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
#pragma unroll
          for (int c = 0; c < D / 8; ++c) {
            const std::uint32_t to = KeyTile::at(ds_tiles, row + (lane >> 2) + 8 * r, 8 * c + 2 * (lane & 3));
            const std::uint32_t pair = pack<T>(x[4 * c + 2 * r] * scale, x[4 * c + 2 * r + 1] * scale);
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(pair) : "memory");
          }
        }
        __syncwarp();
        constexpr int chunks = D / 8;
#pragma unroll
        for (int n = lane; n < 16 * chunks; n += 32) {
          const int r = n / chunks, chunk = n % chunks, key = first_key + row + r;
          if (key < p.keys && chunk < width / 8)
            *reinterpret_cast<uint4*>(row_pointer_mutable(rows, w.b, w.kv, key) + 8 * chunk) =
                load_shared_16(KeyTile::at(ds_tiles, row + r, 8 * chunk));
        }
        __syncwarp();
      };
      send(dv, 1.0f, p.grad_v, p.value_dim);
      send(dk, p.scale, p.grad_k, p.head_dim);
    }
  }
}

/// Rounds the sums of dq, which lie in memory as the fragments of the kernel above: a block takes the 64x64
/// elements of one warpgroup.
template <class T, int D>
__global__ void __launch_bounds__(128)
    hopper_dq_kernel(const __grid_constant__ BackwardProblem p, int query_blocks) {
  constexpr int BM = HopperBackward<D>::query_block;
  __shared__ __align__(128) unsigned char tile[64 * 128];
  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, warp = thread >> 5;
  const std::int64_t place = blockIdx.x / 2;
  const int part = static_cast<int>(blockIdx.x % 2);
  const int m = static_cast<int>(place % query_blocks), bh = static_cast<int>(place / query_blocks);
  const int first = m * BM + (D == 64 ? 64 * part : 0), first_chunk = D == 64 ? 0 : 8 * part;
  const bool seen = key_blocks_end<HopperBackward<D>::key_block>(p, m * BM, BM) > 0;
  const float4* from =
      reinterpret_cast<const float4*>(p.partial_q + place * (BM * D) + part * (BM * D / 2)) + thread;
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    const float4 x = seen ? __ldcs(from + 128 * c) : make_float4(0, 0, 0, 0);
    const int at = 16 * warp + (lane >> 2);
    *reinterpret_cast<std::uint32_t*>(tile + at * 128 + ((c ^ (at & 7)) << 4) + 4 * (lane & 3)) =
        pack<T>(x.x * p.scale, x.y * p.scale);
    *reinterpret_cast<std::uint32_t*>(tile + (at + 8) * 128 + ((c ^ (at & 7)) << 4) + 4 * (lane & 3)) =
        pack<T>(x.z * p.scale, x.w * p.scale);
  }
  __syncwarp();
#pragma unroll
  for (int n = lane; n < 16 * 8; n += 32) {
    const int r = 16 * warp + n / 8, chunk = n % 8;
    if (first + r < p.queries && first_chunk + chunk < p.head_dim / 8)
      *reinterpret_cast<uint4*>(row_pointer_mutable(p.grad_q, bh / p.heads, bh % p.heads, first + r) +
                                8 * (first_chunk + chunk)) =
          *reinterpret_cast<const uint4*>(tile + r * 128 + ((chunk ^ (r & 7)) << 4));
  }
}

template <class T, int D>
void launch_hopper_backward(BackwardProblem p) {
  using Shape = HopperBackward<D>;
  constexpr const char* op = "scaled_dot_product_attention";
  const int key_blocks = static_cast<int>(gpu::ceil_div(p.keys, Shape::key_block));
  const int query_blocks = static_cast<int>(gpu::ceil_div(p.queries, Shape::query_block));
  const std::int64_t places = std::int64_t{p.batch} * p.heads * query_blocks;
  clear_turns(p, places);
  launch_row_terms<T>(p, query_blocks * Shape::query_block);
  const CUtensorMap q = tensor_map(p, p.q, p.heads, p.queries, p.head_dim, Shape::query_block);
  const CUtensorMap k = tensor_map(p, p.k, p.kv_heads, p.keys, p.head_dim, Shape::key_block);
  const CUtensorMap v = tensor_map(p, p.v, p.kv_heads, p.keys, p.value_dim, Shape::key_block);
  const CUtensorMap g = tensor_map(p, p.grad_out, p.heads, p.queries, p.value_dim, Shape::query_block);
  const int tickets =
      static_cast<int>(gpu::blocks_for(op, std::int64_t{p.batch} * p.kv_heads * key_blocks, 1));
  const int grid = std::min(tickets, gpu::multiprocessors());
  gpu::launch(op, hopper_backward_kernel<T, D>, dim3(static_cast<unsigned>(grid)), dim3(Shape::threads),
              Shape::smem, p, q, k, v, g, key_blocks, query_blocks, tickets);
  gpu::launch(op, hopper_dq_kernel<T, D>, dim3(gpu::blocks_for(op, 2 * places, 1)), dim3(128), 0, p,
              query_blocks);
}

}  // namespace ct::attention::mma
