#pragma once

#include <cstdint>
#include <optional>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// Rows of a table: y[..., :] = w[i[...], :], with w the weight and i the indices.
///
/// `indices` is i64 or i32 of any shape, `weight` [rows, columns] of a floating dtype; the result has shape
/// indices.shape + [columns] and the weight's dtype. Row `padding_idx` (negative counts from the end) is
/// read like any other but gets no gradient.
///
/// Gradient: row v of dw is the sum of the cotangents of all places that read it, added in f32 (f64 for
/// f64) in an order that the indices alone decide, and rounded once; rows that nobody read are 0. An existing
/// gradient (micro-batches, a table shared with an output layer) is added to where rows were read and left
/// alone elsewhere.
///
/// Throws ShapeError unless weight is a matrix, DTypeError unless indices are i64 or i32, ValueError for a
/// padding_idx outside of [-rows, rows), IndexError for an index outside of [0, rows) (on CUDA at the next
/// call that waits for the device, see core/device/index_error.h; the row is zeros until then).
CT_API Tensor embedding(const Tensor& indices, const Tensor& weight,
                        std::optional<std::int64_t> padding_idx = {});

}  // namespace ct
