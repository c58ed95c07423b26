#include <cotangent/autograd/grad_mode.h>
#include <cotangent/ops/attention/mma/attention.h>
#include <cotangent/ops/engine/fold/broadcast_grad.h>
#include <cotangent/ops/attention/attention_backward_internal.cuh>
#include <cotangent/ops/attention/attention_tiles_internal.cuh>

// Attention on CUDA for every dtype, layout, mask and head dimension up to 256. A block of 16 x 16 threads
// works on tiles of queries and keys in shared memory, in f32 (f64 for f64). Thread (ty, tx) owns the scores
// of neighbouring rows ty R, ty R + 1, ... and of the columns tx, tx + 16, ...; a row of scores lies in half
// a warp. Every sum has one owner and one order: no atomics.

namespace ct::attention {
namespace {

template <class T, int Dim>
__global__ void __launch_bounds__(kThreads) forward_kernel(const __grid_constant__ Problem p) {
  gpu::wait_for_previous();
  using C = compute_t<T>;
  constexpr int RQ = Tiles<C, Dim>::RQ, RK = Tiles<C, Dim>::RK, BQ = 16 * RQ, BK = 16 * RK, Cols = Dim / 16;
  extern __shared__ __align__(16) unsigned char memory[];
  C* const qs = reinterpret_cast<C*>(memory);
  C* const kv = qs + BQ * (Dim + 1);
  C* const ps = kv + BK * (Dim + 1);

  const std::int64_t tiles = gpu::ceil_div(p.queries, BQ);
  // The last queries see the most keys: they begin first.
  const std::int64_t first_q = (tiles - 1 - blockIdx.x % tiles) * BQ;
  const std::int64_t head = blockIdx.x / tiles, b = head / p.heads, h = head % p.heads;
  const std::int64_t kv_head = h / (p.heads / p.kv_heads);
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;

  load_tile<T, BQ, Dim>(qs, p.q, b, h, first_q, p.queries, p.dim);
  C acc[RQ][Cols], max[RQ], sum[RQ];
#pragma unroll
  for (int r = 0; r < RQ; ++r) {
    max[r] = -C(INFINITY);
    sum[r] = 0;
#pragma unroll
    for (int c = 0; c < Cols; ++c) acc[r][c] = 0;
  }
  const std::int64_t last_q = min(first_q + BQ, p.queries) - 1;
  const std::int64_t end = causal_end(last_q, p.keys, p.causal, p.causal_offset);
  for (std::int64_t first_k = 0; first_k < end; first_k += BK) {
    __syncthreads();
    load_tile<T, BK, Dim>(kv, p.k, b, kv_head, first_k, p.keys, p.dim);
    __syncthreads();
    C s[RQ][RK];
    dot_tiles<C, RQ, RK, Dim>(qs, kv, p.dim, s);
    finish_scores(p, b, h, first_q, first_k, s);
    const GeneratorState draw = p.draw.now();  // for a tile: from here on it would cost registers
#pragma unroll
    for (int r = 0; r < RQ; ++r) {
      C highest = max[r];
#pragma unroll
      for (int c = 0; c < RK; ++c) highest = s[r][c] > highest || s[r][c] != s[r][c] ? s[r][c] : highest;
      highest = row_max(highest);
      const C base = highest == -C(INFINITY) ? C(0) : highest;  // nothing seen so far: all exp are 0
      const C shrink = gpu::exp_full(max[r] - base);
      C added = 0;
      const std::int64_t i = first_q + ty * RQ + r;
#pragma unroll
      for (int c = 0; c < RK; ++c) {
        const C e = gpu::exp_full(s[r][c] - base);
        added += e;
        ps[(ty * RQ + r) * (BK + 1) + tx + 16 * c] =
            e * kept<C>(p, draw, head * p.queries + i, first_k + tx + 16 * c);
      }
      sum[r] = sum[r] * shrink + gpu::warp_sum(added, 16);
      max[r] = highest;
#pragma unroll
      for (int c = 0; c < Cols; ++c) acc[r][c] *= shrink;
    }
    __syncthreads();
    load_tile<T, BK, Dim>(kv, p.v, b, kv_head, first_k, p.keys, p.value_dim);
    __syncthreads();
    mix_tiles<C, RQ, Cols, BK, Dim>(ps, BK + 1, 1, kv, acc);
  }
#pragma unroll
  for (int r = 0; r < RQ; ++r) {
    const std::int64_t i = first_q + ty * RQ + r;
    if (i >= p.queries) continue;
    const bool blind = max[r] == -C(INFINITY);
    const C factor = blind ? C(0) : C(1) / sum[r];
    T* to = static_cast<T*>(p.out.data) + b * p.out.batch + h * p.out.head + i * p.out.row;
#pragma unroll
    for (int c = 0; c < Cols; ++c)
      if (tx + 16 * c < p.value_dim) to[tx + 16 * c] = gpu::from_compute<T>(acc[r][c] * factor);
    if (tx == 0) {
      C* const statistics = static_cast<C*>(p.statistics) + 2 * (head * p.queries + i);
      statistics[0] = max[r];
      statistics[1] = blind ? C(0) : ::log(sum[r]);
    }
  }
}

Place place(const Tensor& t) {
  const Strides& s = t.strides();
  return {t.raw_data(), s[0], s[1], s[2], s[3]};
}

Problem problem(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& out,
                const Tensor& statistics, const Attrs& attrs) {
  const Extents e(q.shape(), k.shape(), v.shape());
  CT_CHECK(e.dim <= 256 && e.value_dim <= 256, ShapeError, kName, "q is ", describe(q), ", v is ",
           describe(v), "; on CUDA, head dimensions go up to 256");
  const DropRule rule(attrs);
  Problem p{};
  p.batch = e.batch, p.heads = e.heads, p.kv_heads = e.kv_heads, p.queries = e.queries, p.keys = e.keys;
  p.dim = static_cast<int>(e.dim), p.value_dim = static_cast<int>(e.value_dim);
  p.q = place(q), p.k = place(k), p.v = place(v), p.out = place(out);
  p.statistics = statistics.raw_data();
  p.scale = attrs.scale, p.causal = attrs.causal, p.causal_offset = attrs.causal_offset;
  p.draw = rule.draw, p.drops = rule.threshold > 0, p.keep = rule.keep;
  p.drop_last = static_cast<std::uint32_t>(rule.threshold > 0 ? rule.threshold - 1 : 0);
  p.mask_kind = rows::mask_kind(mask);
  if (mask.defined()) {
    const Strides s = broadcast_strides(mask.shape(), mask.strides(), {e.batch, e.heads, e.queries, e.keys});
    p.mask = {mask.raw_data(), s[0], s[1], s[2], s[3]};
  }
  return p;
}

// Calls body(TypeTag of the element, integral constant of the head dimension rounded up): but in f32, the one dtype that
// always comes here, to 128 or 256.
template <class Body>
void visit(DType dtype, int dim, const Body& body) {
  visit_floating(kName, dtype, [&]<class T>(TypeTag<T> tag) {
    if constexpr (std::is_same_v<T, float>) {
      if (dim <= 32) return body(tag, std::integral_constant<int, 32>{});
      if (dim <= 64) return body(tag, std::integral_constant<int, 64>{});
    }
    if (dim <= 128) return body(tag, std::integral_constant<int, 128>{});
    body(tag, std::integral_constant<int, 256>{});
  });
}

void forward_cuda(const Forward& f) {
  NoGrad guard;
  if (mma_forward(f)) return;
  const Problem p = problem(f.in(0), f.in(1), f.in(2), f.in(3), f.out(0), f.out(1), f.attrs<Attrs>());
  visit(f.in(0).dtype(), std::max(p.dim, p.value_dim), [&](auto tag, auto dim) {
    using T = typename decltype(tag)::type;
    using Sizes = Tiles<compute_t<T>, decltype(dim)::value>;
    const std::int64_t blocks = gpu::ceil_div(p.queries, 16 * Sizes::RQ) * p.batch * p.heads;
    gpu::launch_waiting(kName, forward_kernel<T, decltype(dim)::value>,
                        dim3(gpu::blocks_for(kName, blocks, 1)), dim3(kThreads), Sizes::kForward, p);
  });
}

void backward_cuda(const Backward& b) {
  NoGrad guard;
  if (mma_backward(b)) return;
  const Tensor& mask = b.saved_inputs[3];
  Problem p = problem(b.in(0), b.in(1), b.in(2), mask, b.out(0), b.out(1), b.attrs<Attrs>());
  p.grad = place(b.grad());
  const Tensor delta = Tensor::allocate({p.batch * p.heads * p.queries}, b.out(1).dtype(), b.out(1).device());
  p.delta = delta.raw_data();
  if (b.needs(0)) p.dq = b.grad_in(0).raw_data();
  if (b.needs(1)) p.dk = b.grad_in(1).raw_data();
  if (b.needs(2)) p.dv = b.grad_in(2).raw_data();
  visit(b.in(0).dtype(), std::max(p.dim, p.value_dim), [&](auto tag, auto dim) {
    using T = typename decltype(tag)::type;
    using C = compute_t<T>;
    constexpr int d = decltype(dim)::value;
    using Sizes = Tiles<C, d>;
    constexpr int tile = 16 * Sizes::R;
    const std::int64_t rows = p.batch * p.heads * p.queries;
    gpu::launch_waiting(kName, delta_kernel<T>, dim3(gpu::blocks_for(kName, rows, kThreads / 32)),
                        dim3(kThreads), 0, p);
    if (b.needs(0)) {
      const std::int64_t blocks = gpu::ceil_div(p.queries, tile) * p.batch * p.heads;
      gpu::launch_waiting(kName, dq_kernel<T, d>, dim3(gpu::blocks_for(kName, blocks, 1)), dim3(kThreads),
                          Sizes::kBackward, p);
    }
    if (b.needs(1) || b.needs(2)) {
      const std::int64_t blocks = gpu::ceil_div(p.keys, tile) * p.batch * p.kv_heads;
      gpu::launch_waiting(kName, dkv_kernel<T, d>, dim3(gpu::blocks_for(kName, blocks, 1)), dim3(kThreads),
                          Sizes::kBackward, p);
    }
    if (b.needs(3)) {
      Shape full = mask.shape();
      while (full.size() < 4) full.insert(0, 1);
      const Tensor sums = whole_grad(b, 3, mask.shape(), dtype_of<C>);
      const MaskGradient m{full[0], full[1], full[2], full[3], sums.raw_data()};
      const std::int64_t blocks =
          gpu::ceil_div(m.queries, tile) * gpu::ceil_div(m.keys, tile) * m.batch * m.heads;
      gpu::launch_waiting(kName, dmask_kernel<T, d>, dim3(gpu::blocks_for(kName, blocks, 1)), dim3(kThreads),
                          Sizes::kBackward, p, m);
      set_summed_grad(b, 3, sums);
    }
  });
}

}  // namespace
}  // namespace ct::attention

CT_KERNELS(cuda, attention, {attention::kName, attention::forward_cuda, attention::backward_cuda})
