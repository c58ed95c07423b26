#include "bench/ladders/adamw.h"
#include "bench/ladders/rows.cuh"

// A step is eleven operations for 28 bytes (adamw_cpu.cpp), so memory is the limit; a network has hundreds of parameters, many
// of them small, so the launches count.

namespace ct::ladder::adamw {
namespace {

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
// Passes: line by line, as one writes it with tensors: three launches for each tensor, and m and v, just written, are read again
// for p.
template <int line>
__global__ void __launch_bounds__(256) passes(Pointers a, Factors f, long n) {
  const long i = static_cast<long>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= n) return;
  if constexpr (line == 0) a.to_m[i] = kBeta1 * a.m[i] + (1 - kBeta1) * a.g[i];
  if constexpr (line == 1) a.to_v[i] = kBeta2 * a.v[i] + (1 - kBeta2) * a.g[i] * a.g[i];
  if constexpr (line == 2)
    a.to_p[i] = a.p[i] * f.keep - f.rate * a.to_m[i] / (sqrtf(a.to_v[i]) * f.by + kEps);
}
void run_passes(const Call& c) {
  const dim3 blocks = gpu::blocks_for("ladder", c.size(1), 256);
  for (std::int64_t t = 0; t < c.size(0); ++t) {
    launch256(passes<0>, blocks, of(c, t), Factors(), c.size(1));
    launch256(passes<1>, blocks, of(c, t), Factors(), c.size(1));
    launch256(passes<2>, blocks, of(c, t), Factors(), c.size(1));
  }
}

// Each: all lines in one kernel, a launch for each tensor, a thread for each number. A launch takes some two microseconds, in which an H100 moves 6 MB:
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
// tensor a block has. (16 bytes an access were measured to gain nothing: seven arrays are bytes enough under way.)
constexpr std::int64_t kList = 64;
struct List {
  Pointers of[kList];
};
__global__ void __launch_bounds__(256) lists(const __grid_constant__ List list, Factors f, long n) {
  const long i = static_cast<long>(blockIdx.x) * 256 + threadIdx.x;
  if (i < n) one(list.of[blockIdx.y], f, i);
}
void run_lists(const Call& c) {
  for (std::int64_t t = 0; t < c.size(0); t += kList) {
    List list{};
    const std::int64_t count = std::min(kList, c.size(0) - t);
    for (std::int64_t k = 0; k < count; ++k) list.of[k] = of(c, t + k);
    launch256(lists, dim3(gpu::blocks_for("ladder", c.size(1), 256), static_cast<unsigned>(count)), list,
              Factors(), c.size(1));
  }
}

const bool kAdded = [] {
  Ladder ladder = described(DeviceType::cuda);
  ladder.timed = {{f32, {192, 200'000}}};
  ladder.rungs = {{"passes", "line by line: three launches for each tensor", run_passes},
                  {"each", "all lines in one kernel, a launch for each tensor", run_each},
                  {"lists", "64 tensors in one launch", run_lists}};
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::adamw
