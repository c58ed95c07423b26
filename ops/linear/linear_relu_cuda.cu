#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/linear/linear_cuda.h>
#include <cotangent/ops/linear/linear_relu_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

namespace ct::linear_impl {
namespace {

struct Formulas : map::Table<void, map::Row<Rectified>, map::Row<Passed>> {};

// The cotangent of x w^T + b from that of y = max(x w^T + b, 0), and its sums over the rows: a block has kCols columns.
constexpr int kCols = 16, kRowLanes = 64;
__global__ void __launch_bounds__(kCols* kRowLanes)
    gated_sums_kernel(const float* g, const float* y, float* out, int rows, int cols, float* sums, bool add) {
  gpu::wait_for_previous();
  __shared__ float partial[kRowLanes][kCols];
  const int col = static_cast<int>(blockIdx.x) * kCols + static_cast<int>(threadIdx.x);
  const int lane = static_cast<int>(threadIdx.y);
  float sum = 0;
  if (col < cols) {
#pragma unroll 8
    for (int row = lane; row < rows; row += kRowLanes) {
      const long long at = static_cast<long long>(row) * cols + col;
      const float passed = y[at] <= 0 ? 0.f : g[at];
      out[at] = passed;
      sum += passed;
    }
  }
  partial[lane][threadIdx.x] = sum;
  __syncthreads();
  if (lane != 0 || col >= cols) return;
  sum = 0;
#pragma unroll
  for (int i = 0; i < kRowLanes; ++i) sum += partial[i][threadIdx.x];
  sums[col] = add ? sums[col] + sum : sum;
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
    gpu::launch_waiting(b.op.name, gated_sums_kernel, gpu::blocks_for(b.op.name, cols, kCols),
                        dim3(kCols, kRowLanes), 0, f32_or_null(*inputs[0]), f32_or_null(*inputs[1]),
                        f32_or_null(out), static_cast<int>(rows), static_cast<int>(cols),
                        f32_or_null(b.grad_in(2)), b.accumulate(2));
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
