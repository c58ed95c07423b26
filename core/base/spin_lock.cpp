#include <cotangent/core/base/spin_lock.h>

#include <chrono>
#include <thread>

namespace ct::detail {

void SpinLock::wait() const noexcept {
  for (int i = 0; held_.load(std::memory_order_relaxed); ++i) {
    if (i < 1000) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

}  // namespace ct::detail
