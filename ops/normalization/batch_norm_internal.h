#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/tensor/tensor.h>

// Shared by the kernels of batch_norm. x is [images, channels, pixels]; a channel's numbers have the dtype of sums.

namespace ct::normalization::batch {

struct Attrs {
  double eps = 1e-5;
};

struct Call {
  const char* op;
  std::int64_t images, channels, pixels;
  double eps;
  bool training;        // statistics are those of x
  Tensor x, mean, var;  // in a training forward pass mean and var are results
  Tensor weight, bias;  // undefined: 1, 0
  Tensor y;             // of a forward pass
  Tensor g, dx;         // of a backward pass; dx undefined: not wanted
  Tensor dweight,
      dbias;  // of a backward pass: results, in the dtype of sums; on the CPU undefined if not wanted
};
using Run = void (*)(const Call& call);

CT_API void forward(const Forward& f, Run run);
CT_API void backward(const Backward& b, Run run);

template <Run forward_run, Run backward_run>
struct KernelsOf {
  static void forward(const Forward& f) { normalization::batch::forward(f, forward_run); }
  static void backward(const Backward& b) { normalization::batch::backward(b, backward_run); }
};

/// Calls f(offset) for the first element of each run of `pixels` elements that belong to a channel.
template <class F>
void each_run(const Call& c, std::int64_t channel, const F& f) {
  for (std::int64_t n = 0; n < c.images; ++n) f((n * c.channels + channel) * c.pixels);
}
template <class C>
C number(const Tensor& t, std::int64_t channel, C otherwise) {
  return t.defined() ? t.data<C>()[channel] : otherwise;
}
template <class C>
void put(const Tensor& t, std::int64_t channel, C number) {
  if (t.defined()) t.data<C>()[channel] = number;
}

}  // namespace ct::normalization::batch

/// The entries of a device's table of kernels (CT_KERNELS).
#define CT_BATCH_NORM_KERNELS(forward_run, backward_run)                               \
  {                                                                                    \
    "batch_norm", normalization::batch::KernelsOf<forward_run, backward_run>::forward, \
        normalization::batch::KernelsOf<forward_run, backward_run>::backward           \
  }
