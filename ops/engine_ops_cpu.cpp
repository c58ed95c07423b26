#include <atomic>
#include <cmath>
#include <limits>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/op/op_def.h>

namespace ct::detail {
namespace {

void check_finite(const Forward& call) {
  std::atomic<bool> finite{true};
  const Tensor& t = call.in(0);
  visit_floating("all_finite", t.dtype(), [&]<class T>(TypeTag<T>) {
    const T* data = static_cast<const T*>(t.raw_data());
    parallel_for(t.numel(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      int bad = 0;  // without a branch, so that the loop vectorises
      for (std::int64_t i = begin; i < end; ++i) {
        const auto x = static_cast<compute_t<T>>(data[i]);
        bad |= !(std::abs(x) <= std::numeric_limits<compute_t<T>>::max());
      }
      if (bad) finite.store(false, std::memory_order_relaxed);
    });
  });
  *call.out().data<std::int32_t>() = !finite.load();
}

}  // namespace
}  // namespace ct::detail

CT_KERNELS(cpu, all_finite, forward_only("all_finite", detail::check_finite))
