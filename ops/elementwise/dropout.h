#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// Inverted dropout (Srivastava et al. 2014): each element is 0 with probability p, else x / (1 - p), so that
/// the expectation is x. With p = 1 everything is 0. With p = 0, or while not training, x itself is returned,
/// nothing is copied and no random numbers are taken.
///
/// One draw is taken from `generator`; whether element number i (in row-major order) is dropped depends on
/// the draw and on i alone, so the CPU and CUDA drop the same elements. The mask is not kept:
/// backward draws again. Shape and dtype are x's. Throws ValueError unless p lies in [0, 1], DTypeError
/// unless x is floating.
CT_API Tensor dropout(const Tensor& x, Real p, Flag training = true,
                      Generator& generator = default_generator());

/// The same with the random numbers of a draw that was taken before (Generator::reserve): the same elements are
/// dropped again. Throws as above.
CT_API Tensor dropout(const Tensor& x, double p, const GeneratorState& draw);

}  // namespace ct
