#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/nn/container.h>
#include <cotangent/nn/embedding.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/models/language_model.h>
#include <cotangent/nn/normalization.h>

// Llama (Touvron et al. 2023; Llama 3: Dubey et al. 2024): rotary positions, RMSNorm in front of each part,
// SwiGLU, heads that share keys and values.

namespace ct::nn::models {

/// Llama 3.1's way to longer texts: waves longer than the original length / low_freq_factor are slowed down
/// by `factor`, those shorter than the original length / high_freq_factor are left alone, with a transition.
struct RopeScaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_max_position_embeddings = 8192;
};

/// Named as in config.json of Hugging Face's checkpoints; the defaults are Llama with 7 billion parameters.
struct LlamaConfig {
  std::int64_t vocab_size = 32000;
  std::int64_t hidden_size = 4096;
  std::int64_t intermediate_size = 11008;
  std::int64_t num_hidden_layers = 32;
  std::int64_t num_attention_heads = 32;
  std::int64_t num_key_value_heads = 0;  ///< 0: num_attention_heads
  std::int64_t head_dim = 0;             ///< 0: hidden_size / num_attention_heads
  std::int64_t max_position_embeddings = 2048;
  double rope_theta = 10000;
  std::optional<RopeScaling> rope_scaling = {};
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  double attention_dropout = 0;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  std::optional<std::int64_t> bos_token_id = {};
  std::vector<std::int64_t> eos_token_ids = {};
  // Not in config.json:
  bool recompute = false;  ///< keep of a block only its inputs for backward, and compute it again there
  DType dtype = DType::f32;
  Device device = cpu;
};

/// Causal self-attention with rotary positions; kv_heads divides the number of heads.
struct CT_API LlamaAttention : Module {
  explicit LlamaAttention(const LlamaConfig& config);
  Tensor forward(const Tensor& x, const Tensor& positions, KvCache* cache, std::int64_t layer) const;

  std::int64_t heads, kv_heads, head_dim;
  double dropout_p, rope_theta;
  std::optional<RopeScaling> rope_scaling;
  Linear q_proj, k_proj, v_proj, o_proj;
};

/// down(silu(gate(x)) * up(x))
struct CT_API LlamaMlp : Module {
  explicit LlamaMlp(const LlamaConfig& config);
  Tensor forward(const Tensor& x) const;

  Linear gate_proj, up_proj, down_proj;
};

struct CT_API LlamaBlock : Module {
  explicit LlamaBlock(const LlamaConfig& config);
  /// Takes and gives {x, y}: the stream of residuals is x + y (x alone if y is undefined). The sum is left to
  /// the next norm, which adds and normalises in one pass.
  std::array<Tensor, 2> forward(const Tensor& x, const Tensor& y, const Tensor& positions, KvCache* cache,
                                std::int64_t layer) const;

  LlamaAttention self_attn;
  LlamaMlp mlp;
  RMSNorm input_layernorm, post_attention_layernorm;
};

/// The model. Its parameters have the names of Hugging Face's LlamaForCausalLM: "model.embed_tokens.weight",
/// "model.layers.0.self_attn.q_proj.weight", ..., "lm_head.weight" unless it is tied to the embedding.
///
/// Initial values: weights from N(0, initializer_range^2), biases 0, norms 1.
/// Throws ShapeError unless sizes are positive, num_attention_heads is a multiple of num_key_value_heads, and
/// head_dim is even and at most 512, ValueError for a dropout outside [0, 1] or other numbers that are not
/// finite or not positive (rms_norm_eps and initializer_range may be 0).
class CT_API Llama : public LanguageModel {
 public:
  explicit Llama(const LlamaConfig& config = {});
  Tensor hidden(const Tensor& tokens, KvCache* cache = nullptr) const override;
  const Parameter& head() const override { return lm_head_ ? lm_head_->weight() : embed_tokens_.weight(); }
  ModelSizes sizes() const override;
  std::optional<std::int64_t> begin_token() const override { return config_.bos_token_id; }
  std::vector<std::int64_t> end_tokens() const override { return config_.eos_token_ids; }
  /// dtype and device are those at construction.
  const LlamaConfig& config() const { return config_; }
  /// Draws new values.
  void reset_parameters();

 private:
  LlamaConfig config_;
  Module model_;
  Embedding embed_tokens_;
  ModuleList<LlamaBlock> layers_;
  RMSNorm norm_;
  std::optional<Linear> lm_head_;
};

}  // namespace ct::nn::models
