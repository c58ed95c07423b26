#pragma once

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/scalar.h>
#include <cotangent/core/device/device.h>
#include <cotangent/core/tensor/tensor.h>

// Copies and fills by dispatch, tape, creation and members: calls of the ops copy, to_device, assign and fill (ops/copy/copy.cpp),
// which tracers see, not recorded on the tape. Kernels, inside of a call, have those of walk/copy.h.

namespace ct::walk::calls {

/// `t` itself if it is contiguous and of that dtype, else a copy that is.
Tensor converted(const Tensor& t, DType dtype);
inline Tensor contiguous(const Tensor& t) { return walk::calls::converted(t, t.dtype()); }
/// A contiguous copy on `device`, also when `t` is there already.
Tensor moved(const Tensor& t, Device device);
/// Writes `source` into the memory of `target`, of the same shape and device, without noting the change.
void assign(const Tensor& target, const Tensor& source);
void fill(const Tensor& target, const Scalar& value);

}  // namespace ct::walk::calls
