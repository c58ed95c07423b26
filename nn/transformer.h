#pragma once

#include <cstdint>
#include <optional>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/export.h>
#include <cotangent/nn/attention.h>
#include <cotangent/nn/container.h>
#include <cotangent/nn/dropout.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/module.h>
#include <cotangent/nn/normalization.h>

// The blocks of "Attention is all you need" (Vaswani et al. 2017), with the names, defaults and initial
// distributions of PyTorch's classes, so that their state_dicts can be exchanged. Layouts are those of
// MultiheadAttention: [T, B, E] unless batch_first.

namespace ct::nn {

/// Function between the two products of a feed-forward part.
enum class Activation { relu, gelu };

struct TransformerLayerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  Activation activation = Activation::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  /// False: norm(x + f(x)), as in the paper. True: x + f(norm(x)), which trains without warm-up.
  bool norm_first = false;
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu;
};

/// Self-attention and a feed-forward part, each with dropout, residual path and norm. Children: self_attn,
/// linear1, dropout, linear2, norm1, norm2, dropout1, dropout2 (torch.nn.TransformerEncoderLayer).
class CT_API TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, TransformerLayerOptions options = {});
  /// [T, B, d_model] -> the same shape. The masks say what is *not* seen, see AttentionMasks.
  Tensor forward(const Tensor& src, const AttentionMasks& masks = {}) const;
  Tensor operator()(const Tensor& src, const AttentionMasks& masks = {}) const {
    return call(*this, src, masks);
  }

 private:
  bool norm_first_;
  Activation activation_;

 public:
  MultiheadAttention self_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2;
  Dropout dropout1, dropout2;
};

/// Self-attention, attention to `memory` (an encoder's result), and a feed-forward part. Children: self_attn,
/// multihead_attn, linear1, dropout, linear2, norm1 ... norm3, dropout1 ... dropout3
/// (torch.nn.TransformerDecoderLayer).
class CT_API TransformerDecoderLayer : public Module {
 public:
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, TransformerLayerOptions options = {});
  /// tgt [T, B, d_model], memory [S, B, d_model] -> shaped as tgt.
  Tensor forward(const Tensor& tgt, const Tensor& memory, const AttentionMasks& tgt_masks = {},
                 const AttentionMasks& memory_masks = {}) const;
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const AttentionMasks& tgt_masks = {},
                    const AttentionMasks& memory_masks = {}) const {
    return call(*this, tgt, memory, tgt_masks, memory_masks);
  }

 private:
  bool norm_first_;
  Activation activation_;

 public:
  MultiheadAttention self_attn, multihead_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout1, dropout2, dropout3;
};

/// A stack of copies of one layer, all of which begin with its values, and, if given, a norm at the end.
/// Children: layers (0, 1, ...), norm (torch.nn.TransformerEncoder).
class CT_API TransformerEncoder : public Module {
 public:
  /// Throws ValueError for num_layers < 0.
  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers,
                     std::optional<LayerNorm> norm = {});
  /// The masks hold for every layer.
  Tensor forward(const Tensor& src, const AttentionMasks& masks = {}) const;
  Tensor operator()(const Tensor& src, const AttentionMasks& masks = {}) const {
    return call(*this, src, masks);
  }

  ModuleList<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
};

}  // namespace ct::nn
