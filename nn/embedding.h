#pragma once

#include <cstdint>
#include <optional>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/export.h>
#include <cotangent/nn/module.h>

namespace ct::nn {

struct EmbeddingOptions {
  /// The row of this index starts as zeros and gets no gradient; negative counts from the end.
  std::optional<std::int64_t> padding_idx = {};
  DType dtype = DType::f32;
  Device device = cpu;
};

/// A vector per index: i64 or i32 [...] -> f[..., dim], the rows of a table.
///
/// Parameter "weight" [count, dim], drawn from N(0, 1), as torch.nn.Embedding. Throws ShapeError for negative
/// sizes, IndexError for a padding_idx out of range.
class CT_API Embedding : public Module {
 public:
  Embedding(std::int64_t count, std::int64_t dim, EmbeddingOptions options = {});
  /// Throws IndexError for an index outside [0, count) (on a GPU at the next call that waits for it).
  Tensor forward(const Tensor& indices) const;
  Tensor operator()(const Tensor& indices) const { return call(*this, indices); }
  /// Draws new values.
  void reset_parameters();

  const Parameter& weight() const { return weight_; }

 private:
  std::optional<std::int64_t> padding_idx_;
  Parameter weight_;
};

}  // namespace ct::nn
