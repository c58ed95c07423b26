#include "bench/ladders/limits.h"
#include "bench/limits.h"

#include <vector>

namespace ct::ladder {

double limit_work(const Ladder& ladder, DType dtype) {
  if (ladder.device == DeviceType::cuda) return gpu_limit_work(ladder.unit, dtype);
  if (ladder.unit == Unit::flops) return bench::fma_work(num_threads());
  static const std::vector<char> from(std::size_t{1} << 28, 1);
  static std::vector<char> to(std::size_t{1} << 28, 2);
  return bench::copy_work(from.data(), to.data(), std::int64_t{1} << 28);
}

#ifndef COTANGENT_CUDA
double gpu_limit_work(Unit, DType) { return 0; }
#endif

}  // namespace ct::ladder
