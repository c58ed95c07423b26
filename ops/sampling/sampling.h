#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

struct SampleOptions {
  /// Divides the logits. 0: the largest logit is taken, of equal ones the first.
  double temperature = 1;
  /// Keeps the k largest logits, and any equal to the k-th. 0: all.
  std::int64_t top_k = 0;
  /// Keeps, of the logits that top_k has left, the most probable that together have at least this
  /// probability, and any as probable as the last of them. In (0, 1]; 1: all.
  double top_p = 1;
};

/// One position per row of `logits`, [..., n] -> i64 [...], drawn from the softmax of logits / temperature
/// over what the options keep: how a language model picks the next token.
///
/// Row r depends on element r of one draw of the generator (none is taken for temperature 0) and on the
/// logits alone: the same on the CPU and on CUDA. Probabilities below 2^-46 of the largest are never drawn
/// (for n up to 65,536). No gradient.
///
/// Throws ShapeError, DTypeError, and ValueError for options outside of their range. A row with a NaN or
/// +inf, or of -inf alone, throws ValueError on the CPU; on a GPU it gives -1.
CT_API Tensor sample_logits(const Tensor& logits, const SampleOptions& options = {},
                            Generator& generator = default_generator());

}  // namespace ct
