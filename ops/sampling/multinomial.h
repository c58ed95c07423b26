#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// `count` positions per row of `weights`, drawn with probabilities that are proportional to them.
///
/// weights is [n] or [rows, n] of a floating dtype, finite and not negative, and need not add up to 1; the
/// result is i64 [count] or [rows, count]. With `replacement` a position may come up again; without, each of
/// them once, drawn one after the other from what is left.
///
/// Draw j of row r depends on element r * count + j of one draw of the generator and on the weights alone:
/// the same on the CPU and on CUDA. Weights are taken to 2^-46 of the largest one of a row or better (for n
/// up to 65,536); smaller ones are never drawn. No gradient.
///
/// Throws ShapeError, DTypeError, and ValueError for a count below 1, or above n without replacement. A row
/// with a weight that is negative or not finite, or with fewer positive ones than are to be drawn (any, with
/// replacement), throws ValueError on the CPU; on a GPU what can't be drawn of it is -1.
CT_API Tensor multinomial(const Tensor& weights, Integer count, Flag replacement = false,
                          Generator& generator = default_generator());

}  // namespace ct
