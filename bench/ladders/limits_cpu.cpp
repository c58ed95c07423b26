#include "bench/ladders/limits.h"
#include "bench/limits.h"

#include <vector>

namespace ct::ladder {

double limit_work(const Ladder& ladder, DType dtype) {
  if (ladder.device == DeviceType::cuda) return gpu_limit_work(ladder.unit, dtype);
  if (ladder.unit == Unit::flops) return bench::fma_work(num_threads());
  // Past the caches: the fastest copy there is.
  struct alignas(64) Line {
    char bytes[64];
  };
  constexpr std::size_t kBytes = std::size_t{1} << 28;
  static const std::vector<Line> from(kBytes / sizeof(Line), Line{{1}});
  static std::vector<Line> to(kBytes / sizeof(Line), Line{{2}});
  return bench::copy_work(from[0].bytes, to[0].bytes, kBytes, bench::Stores::streaming);
}

#ifndef COTANGENT_CUDA
double gpu_limit_work(Unit, DType) { return 0; }
#endif

}  // namespace ct::ladder
