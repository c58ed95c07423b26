#include <cotangent/nn/models/llama.h>

#include <cmath>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/base/error.h>
#include <cotangent/nn/init.h>
#include <cotangent/nn/models/run_blocks_internal.h>
#include <cotangent/ops/attention/attention.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/gated.h>
#include <cotangent/ops/rotary/rotary_embedding.h>

namespace ct::nn::models {
namespace {

LlamaConfig checked(LlamaConfig c) {
  if (c.num_key_value_heads == 0) c.num_key_value_heads = c.num_attention_heads;
  CT_CHECK(c.vocab_size > 0 && c.hidden_size > 0 && c.intermediate_size > 0 && c.num_hidden_layers > 0 &&
               c.num_attention_heads > 0 && c.num_key_value_heads > 0 && c.head_dim >= 0 &&
               c.max_position_embeddings > 0,
           ShapeError, "llama", "vocab_size is ", c.vocab_size, ", hidden_size ", c.hidden_size,
           ", intermediate_size ", c.intermediate_size, ", num_hidden_layers ", c.num_hidden_layers,
           ", num_attention_heads ", c.num_attention_heads, ", num_key_value_heads ", c.num_key_value_heads,
           ", head_dim ", c.head_dim, ", max_position_embeddings ", c.max_position_embeddings,
           "; they must be positive");
  CT_CHECK(
      c.num_attention_heads % c.num_key_value_heads == 0, ShapeError, "llama", "num_attention_heads is ",
      c.num_attention_heads, ", num_key_value_heads ", c.num_key_value_heads,
      "; each key-value head serves the same number of heads: the first must be a multiple of the second");
  if (c.head_dim == 0) {
    CT_CHECK(c.hidden_size % c.num_attention_heads == 0, ShapeError, "llama", "hidden_size is ",
             c.hidden_size, ", num_attention_heads ", c.num_attention_heads,
             "; choose a number of heads that divides the width, or set head_dim");
    c.head_dim = c.hidden_size / c.num_attention_heads;
  }
  CT_CHECK(c.head_dim % 2 == 0 && c.head_dim <= kMaxRotaryDim, ShapeError, "llama", "head_dim is ",
           c.head_dim, "; rotary positions turn pairs of elements: it must be even, and at most ",
           kMaxRotaryDim);
  ct::detail::check_positive("llama", "rope_theta", c.rope_theta);
  ct::detail::check_not_negative("llama", "rms_norm_eps", c.rms_norm_eps);
  ct::detail::check_not_negative("llama", "initializer_range", c.initializer_range);
  ct::detail::check_probability("llama", "attention_dropout", c.attention_dropout);
  if (const auto& s = c.rope_scaling) {
    ct::detail::check_positive("llama", "rope_scaling.factor", s->factor);
    ct::detail::check_positive("llama", "rope_scaling.low_freq_factor", s->low_freq_factor);
    CT_CHECK(std::isfinite(s->high_freq_factor) && s->high_freq_factor > s->low_freq_factor, ValueError,
             "llama", "rope_scaling.high_freq_factor is ", s->high_freq_factor,
             "; it must be finite and above low_freq_factor, ", s->low_freq_factor);
    CT_CHECK(s->original_max_position_embeddings > 0, ValueError, "llama",
             "rope_scaling.original_max_position_embeddings is ", s->original_max_position_embeddings,
             "; it must be > 0");
  }
  return c;
}

Linear linear_of(std::int64_t in, std::int64_t out, bool bias, const LlamaConfig& c) {
  const init::Skip skip;  // reset_parameters() draws all values
  return {in, out, LinearOptions{bias, c.dtype, c.device}};
}
Embedding embedding_of(const LlamaConfig& c) {
  const init::Skip skip;
  return {c.vocab_size, c.hidden_size, EmbeddingOptions{.dtype = c.dtype, .device = c.device}};
}
RMSNorm norm_of(const LlamaConfig& c) {
  return RMSNorm(c.hidden_size, {.eps = c.rms_norm_eps, .dtype = c.dtype, .device = c.device});
}

}  // namespace

LlamaAttention::LlamaAttention(const LlamaConfig& c)
    : heads(c.num_attention_heads),
      kv_heads(c.num_key_value_heads),
      head_dim(c.head_dim),
      dropout_p(c.attention_dropout),
      rope_theta(c.rope_theta),
      rope_scaling(c.rope_scaling),
      q_proj(add("q_proj", linear_of(c.hidden_size, heads * head_dim, c.attention_bias, c))),
      k_proj(add("k_proj", linear_of(c.hidden_size, kv_heads * head_dim, c.attention_bias, c))),
      v_proj(add("v_proj", linear_of(c.hidden_size, kv_heads * head_dim, c.attention_bias, c))),
      o_proj(add("o_proj", linear_of(heads * head_dim, c.hidden_size, c.attention_bias, c))) {}

Tensor LlamaAttention::forward(const Tensor& x, const Tensor& positions, KvCache* cache,
                               std::int64_t layer) const {
  const std::int64_t batch = x.size(0), length = x.size(1);
  const auto split = [&](const Tensor& t, std::int64_t n) {  // [B, n, T, D]
    return t.view({batch, length, n, head_dim}).transpose(1, 2);
  };
  RotaryOptions rope{.base = rope_theta};
  if (rope_scaling)
    rope.scaling = {RotaryScaling::Kind::llama3, rope_scaling->factor, rope_scaling->low_freq_factor,
                    rope_scaling->high_freq_factor, rope_scaling->original_max_position_embeddings};
  const Tensor q = rotary_embedding(split(q_proj(x), heads), positions, rope);
  Tensor k = rotary_embedding(split(k_proj(x), kv_heads), positions, rope), v = split(v_proj(x), kv_heads);
  const std::int64_t past = cache ? cache->length() : 0;
  if (cache) {
    const auto all = cache->append(layer, k, v);
    k = all.keys, v = all.values;
  }
  const Tensor y = scaled_dot_product_attention(
      q, k, v, {.causal = true, .causal_offset = past, .dropout_p = is_training() ? dropout_p : 0});
  return o_proj(y.transpose(1, 2).reshape({batch, length, heads * head_dim}));
}

LlamaMlp::LlamaMlp(const LlamaConfig& c)
    : gate_proj(add("gate_proj", linear_of(c.hidden_size, c.intermediate_size, c.mlp_bias, c))),
      up_proj(add("up_proj", linear_of(c.hidden_size, c.intermediate_size, c.mlp_bias, c))),
      down_proj(add("down_proj", linear_of(c.intermediate_size, c.hidden_size, c.mlp_bias, c))) {}

Tensor LlamaMlp::forward(const Tensor& x) const { return down_proj(swiglu(gate_proj(x), up_proj(x))); }

LlamaBlock::LlamaBlock(const LlamaConfig& c)
    : self_attn(add("self_attn", LlamaAttention(c))),
      mlp(add("mlp", LlamaMlp(c))),
      input_layernorm(add("input_layernorm", norm_of(c))),
      post_attention_layernorm(add("post_attention_layernorm", norm_of(c))) {}

std::array<Tensor, 2> LlamaBlock::forward(const Tensor& x, const Tensor& y, const Tensor& positions,
                                          KvCache* cache, std::int64_t layer) const {
  const auto [n1, x1] =
      y.defined() ? input_layernorm.add_forward(y, x) : std::array<Tensor, 2>{input_layernorm(x), x};
  const auto [n2, x2] =
      post_attention_layernorm.add_forward(self_attn.forward(n1, positions, cache, layer), x1);
  return {x2, mlp.forward(n2)};
}

Llama::Llama(const LlamaConfig& config)
    : config_(checked(config)),
      model_(add("model", Module())),
      embed_tokens_(model_.add("embed_tokens", embedding_of(config_))),
      layers_(model_.add("layers", ModuleList<LlamaBlock>())),
      norm_(model_.add("norm", norm_of(config_))) {
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) layers_.append(LlamaBlock(config_));
  if (!config_.tie_word_embeddings)
    lm_head_ = add("lm_head", linear_of(config_.hidden_size, config_.vocab_size, false, config_));
  reset_parameters();
}

void Llama::reset_parameters() {
  for (const auto& [name, p] : named_parameters()) {
    if (name.ends_with(".bias")) {
      init::zeros_(p);
    } else if (p.dim() == 1) {
      init::ones_(p);
    } else {
      init::normal_(p, 0, config_.initializer_range);
    }
  }
}

Tensor Llama::hidden(const Tensor& tokens, KvCache* cache) const {
  check_tokens("llama", tokens, cache);
  const std::int64_t past = cache ? cache->length() : 0, length = tokens.size(1);
  // Made anew: max_position_embeddings may be far more than any text has.
  const Tensor positions = arange(past, past + length, 1, {.dtype = i64, .device = tokens.device()});
  const auto [x, y] = run_blocks(layers_, embed_tokens_(tokens), cache, config_.recompute, positions);
  if (cache) cache->advance(length);
  return y.defined() ? norm_.add_forward(y, x)[0] : norm_(x);
}

ModelSizes Llama::sizes() const {
  const LlamaConfig& c = config_;
  return {.vocabulary = c.vocab_size,
          .max_length = c.max_position_embeddings,
          .layers = c.num_hidden_layers,
          .width = c.hidden_size,
          .heads = c.num_attention_heads,
          .kv_heads = c.num_key_value_heads,
          .head_dim = c.head_dim};
}

}  // namespace ct::nn::models
