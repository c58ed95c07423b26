#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/linear/linear_cuda.h>
#include <cotangent/ops/linear/linear_relu_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

namespace ct::linear_impl {
namespace {

struct Formulas : map::Table<void, map::Row<Rectified>, map::Row<Passed>> {};

// The cotangent of x w^T + b from that of y = max(x w^T + b, 0), and its sums over the rows. A block has kCols columns, a
// thread kAtOnce of them in every so many rows.
constexpr int kCols = 8, kGateThreads = 1024;
template <int kAtOnce>
__global__ void __launch_bounds__(kGateThreads)
    gated_sums_kernel(const float* g, const float* y, float* out, int rows, int cols, float* sums, bool add) {
  gpu::wait_for_previous();
  using Few = gpu::Vector<float, kAtOnce>;
  constexpr int kAcross = kCols / kAtOnce, kRowLanes = kGateThreads / kAcross, kWarps = kGateThreads / 32;
  __shared__ float partial[kWarps][kCols];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int col = static_cast<int>(blockIdx.x) * kCols + thread % kAcross * kAtOnce;
  float sum[kAtOnce] = {};
  if (col < cols) {
#pragma unroll 4
    for (int row = thread / kAcross; row < rows; row += kRowLanes) {
      const long long at = static_cast<long long>(row) * cols + col;
      Few passed = Few::load(g + at);
      const Few gate = Few::load(y + at);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (gate[i] <= 0) passed.set(i, 0);
        sum[i] += passed[i];
      }
      passed.store(out + at);
    }
  }
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
    for (int apart = kAcross; apart < 32; apart *= 2) sum[i] += __shfl_xor_sync(~0u, sum[i], apart);
    if (lane < kAcross) partial[thread / 32][lane * kAtOnce + i] = sum[i];
  }
  __syncthreads();
  const int own = static_cast<int>(blockIdx.x) * kCols + thread;
  if (thread >= kCols || own >= cols) return;
  float all = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) all += partial[i][thread];
  sums[own] = add ? sums[own] + all : all;
}

// Rows, and columns, up to which one kernel for the gate and the sums is quicker than one for each.
constexpr std::int64_t kMostSummedRows = 8192;

void relu_forward_cuda(const Forward& f) {
  if (f.out().numel() == 0 || forward_cuda(f, true)) return;
  const Tensor* const in_place[] = {&f.out()};
  map::run_cuda(f.op.name, map::gradient_kernels<Rectified, Formulas>(), f.out(), in_place, {});
}

void relu_backward_cuda(const Backward& b) {
  if (layer_backward(b, true, b.out())) return;
  const std::int64_t cols = b.grad().shape().back(), rows = cols > 0 ? b.grad().numel() / cols : 0;
  const bool sums = b.needs(2) && b.grad().dtype() == DType::f32 && b.grad().is_contiguous() && rows > 0 &&
                    rows <= kMostSummedRows && cols <= kMostSummedRows;
  const std::uint8_t flags[] = {b.flags[0], b.flags[1], sums ? std::uint8_t{0} : b.flags[2]};
  const auto pass = [&](Tensor& out, std::span<const Tensor* const> inputs) {
    if (!sums) return map::run_cuda(b.op.name, map::gradient_kernels<Passed, Formulas>(), out, inputs, {});
    const auto launch = [&](auto kernel) {
      gpu::launch_waiting(b.op.name, kernel, gpu::blocks_for(b.op.name, cols, kCols), kGateThreads, 0,
                          f32_or_null(*inputs[0]), f32_or_null(*inputs[1]), f32_or_null(out),
                          static_cast<int>(rows), static_cast<int>(cols), f32_or_null(b.grad_in(2)),
                          b.accumulate(2));
    };
    const bool quads = cols % 4 == 0 && gpu::is_aligned(inputs[0]->raw_data(), 16) &&
                       gpu::is_aligned(inputs[1]->raw_data(), 16) && gpu::is_aligned(out.raw_data(), 16);
    quads ? launch(gated_sums_kernel<4>) : launch(gated_sums_kernel<1>);
  };
  through_relu(b, pass, [&](const Backward& through) {
    Backward rest = through;
    rest.flags = flags;
    backward_apart(rest);
  });
}

}  // namespace
}  // namespace ct::linear_impl

CT_KERNELS(cuda, linear_relu,
           {"linear_relu", ct::linear_impl::relu_forward_cuda, ct::linear_impl::relu_backward_cuda})
