#include <cotangent/nn/embedding.h>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/error.h>
#include <cotangent/nn/init.h>
#include <cotangent/ops/indexing/embedding.h>

namespace ct::nn {

Embedding::Embedding(std::int64_t count, std::int64_t dim, EmbeddingOptions options)
    : padding_idx_(options.padding_idx) {
  CT_CHECK(count >= 0 && dim >= 0, ShapeError, "Embedding", "got sizes ", count, " and ", dim,
           "; sizes must be >= 0");
  if (padding_idx_) {
    CT_CHECK(-count <= *padding_idx_ && *padding_idx_ < count, IndexError, "Embedding", "padding_idx is ",
             *padding_idx_, "; for ", count, " rows it must lie in [", -count, ", ", count, ')');
    if (*padding_idx_ < 0) *padding_idx_ += count;
  }
  describe_as("Embedding",
              ct::detail::cat(count, ", ", dim,
                              padding_idx_ ? ct::detail::cat(", padding_idx=", *padding_idx_) : ""));
  weight_ = parameter("weight", Tensor::allocate({count, dim}, options.dtype, options.device));
  reset_parameters();
}

void Embedding::reset_parameters() {
  init::normal_(weight_);
  if (!padding_idx_) return;
  const NoGrad guard;
  weight_->select(0, *padding_idx_).zero_();
}

Tensor Embedding::forward(const Tensor& indices) const {
  return ct::embedding(indices, weight_, padding_idx_);
}

}  // namespace ct::nn
