#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

struct BatchNormOptions {
  bool training = false;
  /// The share of this batch in the running statistics.
  double momentum = 0.1;
  double eps = 1e-5;
};

/// Batch normalization (Ioffe, Szegedy 2015): y = (x - mean) / sqrt(var + eps) w + b, with a mean and a variance for each
/// channel, axis 1 of x.
///
/// x is [N, C] or [N, C, ...] of a floating dtype, and so is y. All others are [C] or undefined; weight and bias (1 and 0
/// where undefined) have x's dtype, or f32 where that has 16 bits, in which case all is computed in f32 and rounded once.
///
/// In training the statistics are the batch's, the variance without correction; running_mean and running_var, where
/// defined, change in place to (1 - momentum) running + momentum batch, with the unbiased variance. Else they are the
/// statistics. Differentiable to any order.
///
/// Throws ShapeError where shapes do not fit, ValueError for an eps or momentum that makes no sense, a batch of one value
/// for each channel in training, or no running statistics otherwise, DTypeError, DeviceError.
CT_API Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                         const Tensor& weight = {}, const Tensor& bias = {},
                         const BatchNormOptions& options = {});

/// Group normalization (Wu, He 2018): as layer_norm over num_groups groups of channels of each sample, and then by a
/// weight and a bias [C] for each channel. x is [N, C, ...]. Dtypes as of batch_norm. Throws ShapeError, ValueError,
/// DTypeError, DeviceError.
CT_API Tensor group_norm(const Tensor& x, Integer num_groups, const Tensor& weight = {},
                         const Tensor& bias = {}, Real eps = 1e-5);

struct InstanceNormOptions {
  /// False: the running statistics serve instead of each image's own.
  bool use_input_stats = true;
  /// The share of this batch in the running statistics.
  double momentum = 0.1;
  double eps = 1e-5;
};

/// Instance normalization (Ulyanov, Vedaldi, Lempitsky 2016): as batch_norm, with a mean and a variance for each channel
/// of each sample. x is [N, C, L] or [N, C, ...]. With use_input_stats, running_mean and running_var, where defined,
/// change as in batch_norm, by the means over the samples. Otherwise it is batch_norm outside of training. Throws
/// ShapeError, ValueError (also for one element to normalize over), DTypeError, DeviceError.
CT_API Tensor instance_norm(const Tensor& x, const Tensor& running_mean = {}, const Tensor& running_var = {},
                            const Tensor& weight = {}, const Tensor& bias = {},
                            const InstanceNormOptions& options = {});

}  // namespace ct
