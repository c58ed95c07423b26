#pragma once

#include <cstdint>
#include <optional>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

struct AttentionOptions {
  /// Broadcastable to [B, H, Tq, Tk]. bool: true lets query i see key j. Floating, of any floating dtype:
  /// added to the scores after scaling (-inf hides). Undefined: everything is seen.
  Tensor mask = {};
  /// Query i sees the keys j <= i + causal_offset only, besides what the mask says. With a cache of past keys
  /// the offset is Tk - Tq.
  bool causal = false;
  std::int64_t causal_offset = 0;
  /// Each probability is dropped (set to 0) with this probability, the others are divided by 1 - dropout_p.
  double dropout_p = 0;
  /// Factor of q k^T; 1 / sqrt(D) if not given.
  std::optional<double> scale = {};
  /// Where the one draw comes from that dropout takes.
  Generator& generator = default_generator();
};

/// softmax(scale q k^T + mask) v for every batch and head (Vaswani et al. 2017, "Attention is all you need"),
/// worked out tile by tile: the [Tq, Tk] matrices are never stored, neither for forward nor for backward (Dao
/// et al. 2022, "FlashAttention").
///
/// q is [B, H, Tq, D], k is [B, Hkv, Tk, D], v is [B, Hkv, Tk, Dv]; the result is [B, H, Tq, Dv] of q's
/// dtype. H must be a multiple of Hkv: each key and value head then serves H / Hkv neighbouring query heads
/// (grouped-query attention). Any strides: views into a packed projection are read where they lie.
/// The result lies in memory as [B, Tq, H, Dv]: transpose(1, 2).flatten(2) of it, the heads side by side, is
/// a view. A query that sees no key gives 0, and gradients of 0. Hidden keys and values must be finite all
/// the same: 0 times NaN is NaN in the gradients. 16-bit types are computed in f32.
///
/// Dropout decides about the probability (b, h, i, j) by element ((b H + h) Tq + i) Tk + j of its draw, like
/// dropout() of the whole matrix would. Gradients flow to q, k, v and a floating mask.
///
/// Throws ShapeError where the shapes do not fit, and on CUDA for D or Dv above 256; DTypeError where q, k, v
/// differ or are not floating, or the mask is neither floating nor bool; ValueError for a dropout_p outside
/// of [0, 1] or a scale that is not finite.
CT_API Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const AttentionOptions& options = {});

}  // namespace ct
