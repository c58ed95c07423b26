#include <cotangent/nn/transformer.h>

#include <cotangent/core/base/error.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>

namespace ct::nn {
namespace {

MultiheadAttention attention(std::int64_t width, std::int64_t heads, const TransformerLayerOptions& o) {
  return {width, heads,
          MultiheadAttentionOptions{.dropout = o.dropout,
                                    .bias = o.bias,
                                    .batch_first = o.batch_first,
                                    .dtype = o.dtype,
                                    .device = o.device}};
}

Linear projection(std::int64_t in, std::int64_t out, const TransformerLayerOptions& o) {
  return {in, out, LinearOptions{o.bias, o.dtype, o.device}};
}

LayerNorm norm_of(std::int64_t width, const TransformerLayerOptions& o) {
  return LayerNorm(width, {.eps = o.layer_norm_eps, .bias = o.bias, .dtype = o.dtype, .device = o.device});
}

Tensor activate(Activation activation, const Tensor& x) {
  return activation == Activation::relu ? relu(x) : gelu(x);
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 TransformerLayerOptions o)
    : norm_first_(o.norm_first),
      activation_(o.activation),
      self_attn(add("self_attn", attention(d_model, nhead, o))),
      linear1(add("linear1", projection(d_model, o.dim_feedforward, o))),
      dropout(add("dropout", Dropout(o.dropout))),
      linear2(add("linear2", projection(o.dim_feedforward, d_model, o))),
      norm1(add("norm1", norm_of(d_model, o))),
      norm2(add("norm2", norm_of(d_model, o))),
      dropout1(add("dropout1", Dropout(o.dropout))),
      dropout2(add("dropout2", Dropout(o.dropout))) {}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const AttentionMasks& masks) const {
  const auto attend = [&](const Tensor& x) { return dropout1(self_attn(x, x, x, masks)); };
  const auto feed = [&](const Tensor& x) {
    return dropout2(linear2(dropout(activate(activation_, linear1(x)))));
  };
  if (norm_first_) {
    const auto [n, x] = norm2.add_forward(attend(norm1(src)), src);
    return x + feed(n);
  }
  const Tensor x = norm1.add_forward(attend(src), src, NormUse::stream)[0];
  return norm2.add_forward(feed(x), x, NormUse::stream)[0];
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 TransformerLayerOptions o)
    : norm_first_(o.norm_first),
      activation_(o.activation),
      self_attn(add("self_attn", attention(d_model, nhead, o))),
      multihead_attn(add("multihead_attn", attention(d_model, nhead, o))),
      linear1(add("linear1", projection(d_model, o.dim_feedforward, o))),
      dropout(add("dropout", Dropout(o.dropout))),
      linear2(add("linear2", projection(o.dim_feedforward, d_model, o))),
      norm1(add("norm1", norm_of(d_model, o))),
      norm2(add("norm2", norm_of(d_model, o))),
      norm3(add("norm3", norm_of(d_model, o))),
      dropout1(add("dropout1", Dropout(o.dropout))),
      dropout2(add("dropout2", Dropout(o.dropout))),
      dropout3(add("dropout3", Dropout(o.dropout))) {}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory,
                                        const AttentionMasks& tgt_masks,
                                        const AttentionMasks& memory_masks) const {
  const auto attend = [&](const Tensor& x) { return dropout1(self_attn(x, x, x, tgt_masks)); };
  const auto look = [&](const Tensor& x) {
    return dropout2(multihead_attn(x, memory, memory, memory_masks));
  };
  const auto feed = [&](const Tensor& x) {
    return dropout3(linear2(dropout(activate(activation_, linear1(x)))));
  };
  if (norm_first_) {
    const auto [n2, x2] = norm2.add_forward(attend(norm1(tgt)), tgt);
    const auto [n3, x3] = norm3.add_forward(look(n2), x2);
    return x3 + feed(n3);
  }
  Tensor x = norm1.add_forward(attend(tgt), tgt, NormUse::stream)[0];
  x = norm2.add_forward(look(x), x, NormUse::stream)[0];
  return norm3.add_forward(feed(x), x, NormUse::stream)[0];
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers,
                                       std::optional<LayerNorm> final_norm)
    : layers(add("layers", ModuleList<TransformerEncoderLayer>())) {
  CT_CHECK(num_layers >= 0, ValueError, "TransformerEncoder", "num_layers is ", num_layers,
           "; it must be >= 0");
  for (std::int64_t i = 0; i < num_layers; ++i) layers.append(clone(layer));
  if (final_norm) norm = add("norm", *final_norm);
}

Tensor TransformerEncoder::forward(const Tensor& src, const AttentionMasks& masks) const {
  Tensor x = src;
  for (const TransformerEncoderLayer& layer : layers) x = layer(x, masks);
  return norm ? (*norm)(x) : x;
}

}  // namespace ct::nn
