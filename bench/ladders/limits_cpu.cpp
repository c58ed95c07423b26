#include "bench/ladders/limits.h"
#include "bench/limits.h"

#include <cotangent/ops/creation/creation.h>

namespace ct::ladder {

double limit_work(const Ladder& ladder, DType dtype) {
  if (ladder.device == DeviceType::cuda) return gpu_limit_work(ladder.unit, dtype);
  if (ladder.unit == Unit::flops) return bench::fma_work(num_threads());
  // Past the caches: the fastest copy there is.
  constexpr std::int64_t kBytes = 1 << 28;
  static const Tensor from = full({kBytes}, 1, {.dtype = DType::u8}),
                      to = full({kBytes}, 2, {.dtype = DType::u8});
  return bench::copy_work(static_cast<const char*>(from.raw_data()), static_cast<char*>(to.raw_data()),
                          kBytes, bench::Stores::streaming);
}

#ifndef COTANGENT_CUDA
double gpu_limit_work(Unit, DType) { return 0; }
#endif

}  // namespace ct::ladder
