#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

#include <cotangent/core/base/per_thread.h>

namespace ct::detail {

// A buffer that a thread keeps from call to call of the CPU's kernels. Six are enough: packed rows, packed vectors and sums of
// products, one for a task that calls products (kCallersScratch), and two of the thread that calls a kernel, for all of its
// tasks (kSharedScratch and the next).
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { release(); }
  void* get(std::size_t bytes) {
    if (bytes > size_) {
      release();
      bytes = (bytes + kHuge / 8 - 1) / (kHuge / 8) * (kHuge / 8);
      memory_ = ::operator new(bytes, kAlign);
      size_ = bytes;
      // Packed blocks are walked again and again: with small pages much of that is address translation.
      if (bytes >= kHuge) madvise(memory_, bytes, MADV_HUGEPAGE);
    }
    return memory_;
  }

 private:
  static constexpr std::size_t kHuge = std::size_t{2} << 20;
  static constexpr std::align_val_t kAlign{kHuge};
  void release() {
    if (memory_ != nullptr) ::operator delete(memory_, kAlign);
    memory_ = nullptr;
    size_ = 0;
  }
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

inline constexpr int kCallersScratch = 3, kSharedScratch = 4;

template <class T>
T* scratch(int slot, std::int64_t count) {
  struct Buffers {
    Scratch of[6];
  };
  return static_cast<T*>(per_thread<Buffers>().of[slot].get(static_cast<std::size_t>(count) * sizeof(T)));
}

}  // namespace ct::detail
