#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/core/op/op_def.h>

namespace ct::detail {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads) find_non_finite(const T* data, std::int64_t n, int* found) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  bool bad = false;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += step)
    bad = bad || !isfinite(gpu::to_compute(data[i]));
  // Every writer writes the same: no atomic is needed.
  if (__syncthreads_or(bad) && threadIdx.x == 0) *found = 1;
}

void check_finite(const Forward& call) {
  const Tensor &t = call.in(0), &found = call.out();
  zero_bytes(found.raw_data(), t.device(), sizeof(int));
  visit_floating("all_finite", t.dtype(), [&]<class T>(TypeTag<T>) {
    gpu::launch("all_finite", find_non_finite<T>, gpu::grid_stride_blocks(t.numel(), kThreads), kThreads, 0,
                static_cast<const T*>(t.raw_data()), t.numel(), static_cast<int*>(found.raw_data()));
  });
}

}  // namespace
}  // namespace ct::detail

CT_KERNELS(cuda, all_finite, forward_only("all_finite", detail::check_finite))
