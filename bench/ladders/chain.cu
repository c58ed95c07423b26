#include "bench/ladders/chain.h"
#include "bench/ladders/rows.cuh"

// The chain's gradients on a GPU (chain.h has the formulas): what lies between the ops is written and read again, or stays in
// registers.

namespace ct::ladder::chain {
namespace {

struct Operands {
  const float *x, *m, *b, *g;
  float *dx, *dm;
  long n;
};
Operands of(const Call& c) {
  return {c.input<float>(0),  c.input<float>(1),  c.input<float>(2), c.input<float>(3),
          c.output<float>(0), c.output<float>(1), c.size(0)};
}

// Ops: a kernel for each op of the gradient, 64 bytes a number for the 24 of the formula, and five launches.
template <int op>
__global__ void __launch_bounds__(256) ops(Operands a, float* u, float* s, float* gm) {
  const long i = static_cast<long>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= a.n) return;
  if constexpr (op == 0) u[i] = a.x[i] + a.b[i];
  if constexpr (op == 1) s[i] = 1 / (1 + expf(-u[i]));
  if constexpr (op == 2) a.dm[i] = a.g[i] * (u[i] * s[i]);
  if constexpr (op == 3) gm[i] = a.g[i] * a.m[i];
  if constexpr (op == 4) a.dx[i] = gm[i] * (s[i] + u[i] * s[i] * (1 - s[i]));
}
void run_ops(const Call& c) {
  const std::int64_t n = c.size(0);
  const Tensor between = scratch(3 * n);
  float *const u = between.data<float>(), *const s = u + n, *const gm = s + n;
  const dim3 blocks = gpu::blocks_for("ladder", n, 256);
  launch256(ops<0>, blocks, of(c), u, s, gm);
  launch256(ops<1>, blocks, of(c), u, s, gm);
  launch256(ops<2>, blocks, of(c), u, s, gm);
  launch256(ops<3>, blocks, of(c), u, s, gm);
  launch256(ops<4>, blocks, of(c), u, s, gm);
}

__device__ void both(float x, float m, float b, float g, float& dx, float& dm) {
  const float u = x + b, s = 1 / (1 + expf(-u));
  dm = g * (u * s);
  dx = g * m * (s + u * s * (1 - s));
}
// One pass: u, s and the rest in registers; one launch.
__global__ void __launch_bounds__(256) one_pass(Operands a) {
  const long i = static_cast<long>(blockIdx.x) * 256 + threadIdx.x;
  if (i < a.n) both(a.x[i], a.m[i], a.b[i], a.g[i], a.dx[i], a.dm[i]);
}
// Vectors: 16 bytes an access, so that each thread has four times as many bytes under way.
__global__ void __launch_bounds__(256) vectors(Operands a) {
  const long i = static_cast<long>(blockIdx.x) * 256 + threadIdx.x;
  if (i < a.n / 4) {
    const auto load = [&](const float* from) { return __ldcs(reinterpret_cast<const float4*>(from) + i); };
    const float4 x = load(a.x), m = load(a.m), b = load(a.b), g = load(a.g);
    float4 dx, dm;
    both(x.x, m.x, b.x, g.x, dx.x, dm.x), both(x.y, m.y, b.y, g.y, dx.y, dm.y);
    both(x.z, m.z, b.z, g.z, dx.z, dm.z), both(x.w, m.w, b.w, g.w, dx.w, dm.w);
    __stcs(reinterpret_cast<float4*>(a.dx) + i, dx);
    __stcs(reinterpret_cast<float4*>(a.dm) + i, dm);
  }
  if (const long k = a.n / 4 * 4 + i; k < a.n) both(a.x[k], a.m[k], a.b[k], a.g[k], a.dx[k], a.dm[k]);
}

const bool kAdded = [] {
  Ladder ladder = described(DeviceType::cuda);
  ladder.timed = {{f32, {1 << 26}}};
  ladder.rungs = {
      {"ops", "a kernel for each op: what lies between is written and read again", run_ops},
      {"one-pass", "what lies between stays in registers",
       [](const Call& c) { launch256(one_pass, gpu::blocks_for("ladder", c.size(0), 256), of(c)); }},
      {"vectors", "16 bytes by one instruction",
       [](const Call& c) { launch256(vectors, gpu::blocks_for("ladder", c.size(0), 1024), of(c)); }}};
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::chain
