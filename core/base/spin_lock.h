#pragma once

#include <atomic>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/ref.h>

namespace ct::detail {

/// A lock for what is short and hardly ever contended: taking it is one atomic exchange.
class CT_API SpinLock {
 public:
  bool try_lock() noexcept {
    if (!only_thread()) return !held_.exchange(true, std::memory_order_acquire);
    const bool held = held_.load(std::memory_order_relaxed);
    held_.store(true, std::memory_order_relaxed);
    return !held;
  }
  void lock() noexcept {
    while (!try_lock()) wait();
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  void wait() const noexcept;
  std::atomic<bool> held_{false};
};

}  // namespace ct::detail
