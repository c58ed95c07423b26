#include <cotangent/core/cuda/device_error.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/indexing/index_internal.h>

namespace ct::indexing_impl::flat {
namespace {

__global__ void __launch_bounds__(256)
    flat_kernel(const __grid_constant__ Lists lists, long long n, std::int64_t* __restrict__ y,
                ct::detail::DeviceErrors* errors, IndexSite site) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  std::int64_t bad = 0, limit = 0;
  const std::int64_t flat =
      lists.at(i, [&](std::int64_t index, std::int64_t size) { bad = index, limit = size; });
  if (flat < 0) gpu::report_index_error(errors, site, bad, limit);
  y[i] = flat;
}

void forward_cuda(const Forward& f) {
  const std::int64_t n = f.out().numel();
  gpu::launch("index", flat_kernel, gpu::blocks_for("index", n, 256), 256, 0, Lists(f), n,
              f.out().data<std::int64_t>(), gpu::index_errors(), IndexSite{"index", IndexKind::index});
}

}  // namespace
}  // namespace ct::indexing_impl::flat

CT_KERNELS(cuda, index, forward_only("flat_index", indexing_impl::flat::forward_cuda))
