#pragma once

#include <cstdint>
#include <type_traits>

#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// Number of threads of a kernel.
struct CudaGrid {
  std::int64_t blocks;
  unsigned threads = 256;     ///< of a block
  unsigned shared_bytes = 0;  ///< of dynamic shared memory
  unsigned blocks_y = 1;
  unsigned threads_y = 1;

  /// A thread for each of n things, or a few more.
  static CudaGrid over(std::int64_t n) { return {(n + 255) / 256}; }
};

/// A kernel's argument: a tensor (its first element, T* or const T*), a whole number (long long), a real one (double).
class CudaArgument {
 public:
  CudaArgument(const Tensor& t) : bits_{.pointer = t.raw_data()} {}
  template <Number N>
  CudaArgument(N value) {
    if constexpr (std::is_integral_v<N>)
      bits_.whole = static_cast<long long>(value);
    else
      bits_.real = static_cast<double>(value);
  }
  void* address() const { return const_cast<Bits*>(&bits_); }

 private:
  union Bits {
    void* pointer;
    long long whole;
    double real;
  } bits_{};
};

}  // namespace ct
