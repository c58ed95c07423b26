#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/update/update.h>

namespace ct::update {

/// Trains a perceptron of three layers by k steps of Adam, each on a batch of its own, in place and off the tape:
///
///     loss = cross_entropy(relu(relu(x W1^T + b1) W2^T + b2) W3^T + b3, labels)
///
/// x is [k, rows, in] and labels i64 [k, rows] in [0, classes). params are W1 [h1, in], b1 [h1], W2 [h2, h1], b2 [h2], W3
/// [classes, h2] and b3 [classes], in this order, exp_avgs and exp_avg_sqs their moments, of the same shapes, zeros at first.
/// steps is i64 [1], the number of steps made, to which k is added. All are contiguous and on one device, and all but labels
/// and steps are f32. Returns the losses of the steps, f32 [k].
///
/// On a GPU all k steps are one launch, of a cluster of 16 blocks, which holds the weights and moments from the first step to
/// the last: compute capability 9.0, at most 64 rows, 800 inputs, 128 units in either hidden layer and 16 classes.
/// `adam` is that of an adam_step, which has neither amsgrad nor a norm: ValueError. Throws ShapeError, DTypeError, DeviceError
/// where the GPU has no such clusters, and IndexError for labels out of range (on a GPU at the next call that waits for it).
CT_API Tensor mlp_step_(TensorList params, TensorList exp_avgs, TensorList exp_avg_sqs, const Tensor& steps,
                        const Tensor& x, const Tensor& labels, const AdamAttrs& adam);

}  // namespace ct::update
