#pragma once

#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct::optim {

struct ClipOptions {
  /// 2, 1, infinity or any p > 0.
  double norm_type = 2;
  /// Throws ValueError for a norm that is NaN or infinite, and leaves the gradients alone; waits for the
  /// device.
  bool error_if_nonfinite = false;
};

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is that of all gradients taken as one
/// vector, and returns the norm before scaling as a 0-dim tensor on their device: f32, or f64 if one of the
/// gradients is. Nothing waits for the device. Parameters without a gradient are passed over; each is to be
/// listed once. As torch.nn.utils.clip_grad_norm_, but that the norm is summed in f64.
/// Throws ValueError for max_norm < 0 or norm_type <= 0, DeviceError for gradients on several devices.
CT_API Tensor clip_grad_norm_(const std::vector<Tensor>& params, double max_norm, ClipOptions options = {});

/// Clamps every element of every gradient to [-limit, limit]. Throws ValueError for limit < 0, DeviceError
/// for gradients on several devices.
CT_API void clip_grad_value_(const std::vector<Tensor>& params, double limit);

}  // namespace ct::optim
