#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/sorting/searchsorted_internal.h>
#include <cotangent/ops/engine/rows/element_key.cuh>

namespace ct::sorting::searched {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    search_kernel(const void* list, const void* values, DType dtype, long long n, long long m,
                  long long count, bool right, long long* __restrict__ out) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const long long row = i / m * n;
  out[i] = position(n, rows::element_key(values, dtype, i), right,
                    [&](long long j) { return rows::element_key(list, dtype, row + j); });
}

void forward_cuda(const Forward& f) {
  const Tensor &list = f.in(0), &values = f.in(1);
  if (values.numel() == 0) return;
  gpu::launch(f.op.name, search_kernel, gpu::blocks_for(f.op.name, values.numel(), kThreads), kThreads, 0,
              list.raw_data(), values.raw_data(), list.dtype(), list.shape().back(),
              list.dim() > 1 ? values.shape().back() : values.numel(), values.numel(), f.attrs<Attrs>().right,
              static_cast<long long*>(f.out().raw_data()));
}

}  // namespace
}  // namespace ct::sorting::searched

CT_KERNELS(cuda, searchsorted, forward_only("searchsorted", sorting::searched::forward_cuda))
