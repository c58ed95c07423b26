#pragma once

#include <array>
#include <cstdint>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/export.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/module.h>

namespace ct::nn {

struct MultiheadAttentionOptions {
  /// Probability with which an attention weight is dropped in training.
  double dropout = 0;
  bool bias = true;
  /// Widths of keys and values; 0: embed_dim.
  std::int64_t kdim = 0, vdim = 0;
  /// True: [B, T, E]. False (PyTorch's default): [T, B, E].
  bool batch_first = false;
  DType dtype = DType::f32;
  Device device = cpu;
};

/// Masks of keys that a query may not see. As in torch.nn.MultiheadAttention, and other than in
/// scaled_dot_product_attention(), *true in a bool mask means: not this key*. Floating masks are added to the
/// scores.
struct AttentionMasks {
  /// bool or floating [B, Tk] ([Tk] without batch): keys that no query of a sequence sees.
  Tensor key_padding_mask = {};
  /// bool or floating [Tq, Tk] or [B * heads, Tq, Tk].
  Tensor attn_mask = {};
  /// Query i sees keys 0 ... i; no mask needs to be made.
  bool is_causal = false;
};

/// Attention by several heads side by side (Vaswani et al. 2017): queries, keys and values are projected,
/// each head works on embed_dim / num_heads of the columns, and their results are projected again.
///
/// Parameters, names and initial values as torch.nn.MultiheadAttention: "in_proj_weight" [3E, E] (xavier
/// uniform; with kdim or vdim other than E instead "q_proj_weight" [E, E], "k_proj_weight" [E, kdim],
/// "v_proj_weight" [E, vdim]), "in_proj_bias" [3E] (zeros), "out_proj.weight" [E, E], "out_proj.bias"
/// (zeros). bias_k, bias_v and add_zero_attn are not offered. A query that may see no key gives the bias of
/// the output projection (PyTorch: NaN).
///
/// Throws ValueError unless num_heads > 0 divides embed_dim, for a dropout outside [0, 1] and for negative
/// widths.
class CT_API MultiheadAttention : public Module {
 public:
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, MultiheadAttentionOptions options = {});

  /// query [Tq, B, E], key [Tk, B, kdim], value [Tk, B, vdim] (batch_first: B in front; or no B at all) ->
  /// shaped as query. Throws ShapeError if sizes do not fit, DTypeError for masks of integers.
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionMasks& masks = {}) const;
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const AttentionMasks& masks = {}) const {
    return call(*this, query, key, value, masks);
  }
  /// {output, weights}: the second are the attention weights [B, Tq, Tk], averaged over the heads. It makes
  /// the whole matrix that forward() avoids.
  std::array<Tensor, 2> forward_with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                                             const AttentionMasks& masks = {}) const;
  /// Draws new values.
  void reset_parameters();

  std::int64_t embed_dim() const { return embed_; }
  std::int64_t num_heads() const { return heads_; }
  bool batch_first() const { return batch_first_; }

 private:
  std::array<Tensor, 2> attend(const Tensor& query, const Tensor& key, const Tensor& value,
                               const AttentionMasks& masks, bool weights) const;
  std::array<Tensor, 3> project(const Tensor& query, const Tensor& key, const Tensor& value) const;

  std::int64_t embed_, heads_, kdim_, vdim_;
  double dropout_;
  bool batch_first_;
  Parameter in_proj_weight_, q_proj_weight_, k_proj_weight_, v_proj_weight_, in_proj_bias_;
  Linear out_proj_;
};

}  // namespace ct::nn
