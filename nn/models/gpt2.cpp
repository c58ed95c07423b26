#include <cotangent/nn/models/gpt2.h>

#include <cmath>
#include <utility>
#include <vector>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/base/error.h>
#include <cotangent/nn/init.h>
#include <cotangent/nn/models/run_blocks_internal.h>
#include <cotangent/ops/attention/attention.h>
#include <cotangent/ops/elementwise/binary.h>

namespace ct::nn::models {
namespace {

Gpt2Config checked(Gpt2Config c) {
  if (c.n_inner == 0) c.n_inner = 4 * c.n_embd;
  CT_CHECK(
      c.vocab_size > 0 && c.n_positions > 0 && c.n_embd > 0 && c.n_layer > 0 && c.n_head > 0 && c.n_inner > 0,
      ShapeError, "gpt2", "vocab_size is ", c.vocab_size, ", n_positions ", c.n_positions, ", n_embd ",
      c.n_embd, ", n_layer ", c.n_layer, ", n_head ", c.n_head, ", n_inner ", c.n_inner,
      "; they must be positive");
  CT_CHECK(c.n_embd % c.n_head == 0, ShapeError, "gpt2", "n_embd is ", c.n_embd, ", n_head ", c.n_head,
           "; the heads divide the width among them: choose an n_head that divides n_embd");
  for (const auto& [name, p] : {std::pair{"embd_pdrop", c.embd_pdrop}, std::pair{"attn_pdrop", c.attn_pdrop},
                                std::pair{"resid_pdrop", c.resid_pdrop}})
    ct::detail::check_probability("gpt2", name, p);
  ct::detail::check_not_negative("gpt2", "layer_norm_epsilon", c.layer_norm_epsilon);
  ct::detail::check_not_negative("gpt2", "initializer_range", c.initializer_range);
  return c;
}

Linear linear_of(std::int64_t in, std::int64_t out, bool bias, const Gpt2Config& c) {
  const init::Skip skip;  // reset_parameters() draws all values
  return {in, out, LinearOptions{bias, c.dtype, c.device}};
}
LayerNorm norm_of(const Gpt2Config& c) {
  return LayerNorm(c.n_embd,
                   {.eps = c.layer_norm_epsilon, .bias = c.bias, .dtype = c.dtype, .device = c.device});
}
Embedding embedding_of(std::int64_t count, const Gpt2Config& c) {
  const init::Skip skip;
  return {count, c.n_embd, EmbeddingOptions{.dtype = c.dtype, .device = c.device}};
}

}  // namespace

Gpt2Attention::Gpt2Attention(const Gpt2Config& c)
    : heads(c.n_head),
      attn_pdrop(c.attn_pdrop),
      c_attn(add("c_attn", linear_of(c.n_embd, 3 * c.n_embd, c.bias, c))),
      c_proj(add("c_proj", linear_of(c.n_embd, c.n_embd, c.bias, c))),
      resid_dropout(add("resid_dropout", Dropout(c.resid_pdrop))) {}

Tensor Gpt2Attention::forward(const Tensor& x, KvCache* cache, std::int64_t layer) const {
  const std::int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  const std::vector<Tensor> qkv = c_attn(x).view({batch, length, 3, heads, width / heads}).unbind(2);
  const Tensor q = qkv[0].transpose(1, 2);  // [B, H, T, D]
  Tensor k = qkv[1].transpose(1, 2), v = qkv[2].transpose(1, 2);
  const std::int64_t past = cache ? cache->length() : 0;
  if (cache) {
    const auto all = cache->append(layer, k, v);
    k = all.keys, v = all.values;
  }
  const Tensor y = scaled_dot_product_attention(
      q, k, v, {.causal = true, .causal_offset = past, .dropout_p = is_training() ? attn_pdrop : 0});
  return resid_dropout(c_proj(y.transpose(1, 2).reshape({batch, length, width})));
}

Gpt2Mlp::Gpt2Mlp(const Gpt2Config& c)
    : activation(c.activation),
      c_fc(add("c_fc", linear_of(c.n_embd, c.n_inner, c.bias, c))),
      c_proj(add("c_proj", linear_of(c.n_inner, c.n_embd, c.bias, c))),
      dropout(add("dropout", Dropout(c.resid_pdrop))) {}

Tensor Gpt2Mlp::forward(const Tensor& x) const { return dropout(c_proj(gelu(c_fc(x), activation))); }

Gpt2Block::Gpt2Block(const Gpt2Config& c)
    : ln_1(add("ln_1", norm_of(c))),
      attn(add("attn", Gpt2Attention(c))),
      ln_2(add("ln_2", norm_of(c))),
      mlp(add("mlp", Gpt2Mlp(c))) {}

std::array<Tensor, 2> Gpt2Block::forward(const Tensor& x, const Tensor& y, KvCache* cache,
                                         std::int64_t layer) const {
  const auto [n1, x1] = y.defined() ? ln_1.add_forward(y, x) : std::array<Tensor, 2>{ln_1(x), x};
  const auto [n2, x2] = ln_2.add_forward(attn.forward(n1, cache, layer), x1);
  return {x2, mlp.forward(n2)};
}

Gpt2::Gpt2(const Gpt2Config& config)
    : config_(checked(config)),
      transformer_(add("transformer", Module())),
      wte_(transformer_.add("wte", embedding_of(config_.vocab_size, config_))),
      wpe_(transformer_.add("wpe", embedding_of(config_.n_positions, config_))),
      drop_(transformer_.add("drop", Dropout(config_.embd_pdrop))),
      h_(transformer_.add("h", ModuleList<Gpt2Block>())),
      ln_f_(transformer_.add("ln_f", norm_of(config_))) {
  for (std::int64_t i = 0; i < config_.n_layer; ++i) h_.append(Gpt2Block(config_));
  if (!config_.tie_word_embeddings)
    lm_head_ = add("lm_head", linear_of(config_.n_embd, config_.vocab_size, false, config_));
  reset_parameters();
}

void Gpt2::reset_parameters() {
  const double std = config_.initializer_range;
  const double residual = std / std::sqrt(2.0 * static_cast<double>(config_.n_layer));
  for (const auto& [name, p] : named_parameters()) {
    if (name.ends_with(".bias")) {
      init::zeros_(p);
    } else if (p.dim() == 1) {
      init::ones_(p);
    } else {
      init::normal_(p, 0, name.ends_with("c_proj.weight") ? residual : std);
    }
  }
}

Tensor Gpt2::hidden(const Tensor& tokens, KvCache* cache) const {
  check_tokens("gpt2", tokens, cache);
  const std::int64_t past = cache ? cache->length() : 0, length = tokens.size(1);
  const auto [x, y] =
      run_blocks(h_, drop_(wte_(tokens) + wpe_.weight()->narrow(0, past, length)), cache, config_.recompute);
  if (cache) cache->advance(length);
  return y.defined() ? ln_f_.add_forward(y, x)[0] : ln_f_(x);
}

ModelSizes Gpt2::sizes() const {
  const Gpt2Config& c = config_;
  return {.vocabulary = c.vocab_size,
          .max_length = c.n_positions,
          .layers = c.n_layer,
          .width = c.n_embd,
          .heads = c.n_head,
          .kv_heads = c.n_head,
          .head_dim = c.n_embd / c.n_head};
}

}  // namespace ct::nn::models
