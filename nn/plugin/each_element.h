#pragma once

#include <cstdint>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// to[i] = f(in[i]...) for each element, on the CPU and in parallel: the loop of an elementwise op of one's own. f gets and
/// gives what is computed in (float, or double for f64: a lambda of `auto` serves both). All are contiguous, of one floating
/// dtype and of as many elements; throws DTypeError, naming `op` where the dtype does not float.
template <class F, class... In>
void each_element(const char* op, const Tensor& to, F f, const In&... in) {
  visit_floating(op, to.dtype(), [&]<class T>(TypeTag<T>) {
    const auto loop = [&](T* out, const auto*... from) {
      parallel_for(to.numel(), 1 << 14, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) out[i] = T(f(static_cast<compute_t<T>>(from[i])...));
      });
    };
    loop(to.data<T>(), static_cast<const T*>(in.template data<T>())...);
  });
}

}  // namespace ct
