#pragma once

#include <cotangent/ops/normalization/rows.cuh>

// The rows of normalization/normalization_cuda.cuh that do not lie in registers as whole vectors, those of f64, and
// the last pass of all of them. The kernels, in long_rows.cu, serve rows around a mean and around 0 alike.

namespace ct::normalization {

template <class T>
T* pointer(const Tensor& t) {
  return t.defined() ? static_cast<T*>(t.raw_data()) : nullptr;
}

template <class T, class L>
void run_long_forward(const char* op, const ForwardRows<T, L>& rows);

/// Leaves `slabs` partial sums for each column in dweight and dbias.
template <class T, class L>
void run_long_backward(const char* op, const BackwardRows<T, L>& rows, unsigned slabs);

/// call.dweight and call.dbias (+)= the sums of `count` partial sums for each column. Either may be null.
void finish_sums(const BackwardCall& call, const void* dweight, const void* dbias, unsigned count);

}  // namespace ct::normalization
