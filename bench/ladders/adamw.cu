#include "bench/ladders/adamw.h"
#include "bench/ladders/rows.cuh"

// A step is eleven operations for 28 bytes (adamw_cpu.cpp), so memory is the limit; a network has hundreds of parameters, many
// of them small, so the launches count.

namespace ct::ladder::adamw {
namespace {

struct Pointers {
  const float *p, *g, *m, *v;
  float *to_p, *to_m, *to_v;
};
Pointers of(const Call& c, std::int64_t t) {
  const auto in = [&](int which) { return static_cast<const float*>(c.in[place(c, which, t)].raw_data()); };
  const auto out = [&](int which) { return static_cast<float*>(c.out[place(c, which, t)].raw_data()); };
  return {in(0), in(1), in(2), in(3), out(0), out(1), out(2)};
}

__device__ void step(const Factors& f, float& p, float g, float& m, float& v) {
  m = kBeta1 * m + (1 - kBeta1) * g;
  v = kBeta2 * v + (1 - kBeta2) * g * g;
  p = p * f.keep - f.rate * m / (sqrtf(v) * f.by + kEps);
}
__device__ void one(const Pointers& a, const Factors& f, long i) {
  float p = a.p[i], m = a.m[i], v = a.v[i];
  step(f, p, a.g[i], m, v);
  a.to_p[i] = p, a.to_m[i] = m, a.to_v[i] = v;
}
__device__ float4 load(const float* from, long i) {
  return __ldcs(reinterpret_cast<const float4*>(from) + i);
}
__device__ void store(float* to, long i, float4 v) { __stcs(reinterpret_cast<float4*>(to) + i, v); }
// The numbers 4 i to 4 i + 3, by 16 bytes where all four are there.
__device__ void four(const Pointers& a, const Factors& f, long i, long n) {
  if (4 * i + 4 > n) {
    for (long k = 4 * i; k < n; ++k) one(a, f, k);
    return;
  }
  float4 p = load(a.p, i), g = load(a.g, i), m = load(a.m, i), v = load(a.v, i);
  step(f, p.x, g.x, m.x, v.x), step(f, p.y, g.y, m.y, v.y), step(f, p.z, g.z, m.z, v.z),
      step(f, p.w, g.w, m.w, v.w);
  store(a.to_p, i, p), store(a.to_m, i, m), store(a.to_v, i, v);
}

// Each: a launch for each tensor, a thread for each number. A launch takes some two microseconds, in which an H100 moves 6 MB:
// tensors of less than 200,000 numbers are done before the next launch has begun.
__global__ void __launch_bounds__(256) each(Pointers a, Factors f, long n) {
  const long i = static_cast<long>(blockIdx.x) * 256 + threadIdx.x;
  if (i < n) one(a, f, i);
}
void run_each(const Call& c) {
  for (std::int64_t t = 0; t < c.size(0); ++t)
    launch256(each, gpu::blocks_for("ladder", c.size(1), 256), of(c, t), Factors(), c.size(1));
}

// Lists: the pointers of 64 tensors are the argument of one launch, 3.5 of the 4 KiB that arguments may have; blockIdx.y says which
// tensor a block has.
constexpr std::int64_t kList = 64;
struct List {
  Pointers of[kList];
};
__global__ void __launch_bounds__(256) lists(const __grid_constant__ List list, Factors f, long n) {
  const long i = static_cast<long>(blockIdx.x) * 256 + threadIdx.x;
  if (i < n) one(list.of[blockIdx.y], f, i);
}
// Vectors: 16 bytes an access. Seven arrays are under way at the same time, so that four of each are as many bytes as the memory
// needs.
__global__ void __launch_bounds__(256) vectors(const __grid_constant__ List list, Factors f, long n) {
  const long i = static_cast<long>(blockIdx.x) * 256 + threadIdx.x;
  if (4 * i < n) four(list.of[blockIdx.y], f, i, n);
}
template <class Kernel>
void in_lists(const Call& c, Kernel kernel, std::int64_t each_thread) {
  for (std::int64_t t = 0; t < c.size(0); t += kList) {
    List list{};
    const std::int64_t count = std::min(kList, c.size(0) - t);
    for (std::int64_t k = 0; k < count; ++k) list.of[k] = of(c, t + k);
    launch256(kernel,
              dim3(gpu::blocks_for("ladder", c.size(1), 256 * each_thread), static_cast<unsigned>(count)),
              list, Factors(), c.size(1));
  }
}

const bool kAdded = [] {
  Ladder ladder = described(DeviceType::cuda);
  ladder.timed = {{f32, {192, 200'000}}};
  ladder.rungs = {{"each", "a launch for each tensor", run_each},
                  {"lists", "64 tensors in one launch", [](const Call& c) { in_lists(c, lists, 1); }},
                  {"vectors", "16 bytes by one instruction", [](const Call& c) { in_lists(c, vectors, 4); }}};
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::adamw
