#include <cotangent/ops/loss/loss_cuda.cuh>

// The second launch of loss_cuda.cuh's sums, compiled once for all losses.

namespace ct::loss {
namespace {

template <class T>
__global__ void finish_loss_kernel(const compute_t<T>* partial, int count, Sums<T> sums) {
  gpu::wait_for_previous();
  compute_t<T> total = 0, weights = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    total += partial[2 * i];
    weights += partial[2 * i + 1];
  }
  sums.finish(total, weights);
}

}  // namespace

template <class T>
void finish_sums(const char* op, const compute_t<T>* partial, unsigned count, const Sums<T>& sums) {
  gpu::launch_waiting(op, finish_loss_kernel<T>, 1, kReduceThreads, 0, partial, count, sums);
}

template void finish_sums(const char*, const float*, unsigned, const Sums<float>&);
template void finish_sums(const char*, const double*, unsigned, const Sums<double>&);
template void finish_sums(const char*, const float*, unsigned, const Sums<Half>&);
template void finish_sums(const char*, const float*, unsigned, const Sums<BFloat16>&);

}  // namespace ct::loss
