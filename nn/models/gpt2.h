#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/nn/container.h>
#include <cotangent/nn/dropout.h>
#include <cotangent/nn/embedding.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/models/language_model.h>
#include <cotangent/nn/normalization.h>
#include <cotangent/ops/elementwise/unary.h>

// GPT-2 (Radford et al. 2019): learned positions, norms in front of each part, GELU.

namespace ct::nn::models {

/// Named as in config.json of Hugging Face's checkpoints; the defaults are GPT-2 with 124 million parameters.
struct Gpt2Config {
  std::int64_t vocab_size = 50257;
  std::int64_t n_positions = 1024;
  std::int64_t n_embd = 768;
  std::int64_t n_layer = 12;
  std::int64_t n_head = 12;
  std::int64_t n_inner = 0;  ///< width of the feed-forward part; 0: 4 n_embd
  double embd_pdrop = 0.1, attn_pdrop = 0.1, resid_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  Gelu activation = Gelu::tanh;
  bool tie_word_embeddings = true;
  std::optional<std::int64_t> bos_token_id = {};
  std::vector<std::int64_t> eos_token_ids = {};
  // Not in config.json:
  bool bias = true;        ///< false: no biases in projections and norms
  bool recompute = false;  ///< keep of a block only its inputs for backward, and compute it again there
  DType dtype = DType::f32;
  Device device = cpu;
};

/// Causal self-attention; c_attn makes queries, keys and values in one product.
struct CT_API Gpt2Attention : Module {
  explicit Gpt2Attention(const Gpt2Config& config);
  Tensor forward(const Tensor& x, KvCache* cache, std::int64_t layer) const;

  std::int64_t heads;
  double attn_pdrop;
  Linear c_attn, c_proj;
  Dropout resid_dropout;
};

struct CT_API Gpt2Mlp : Module {
  explicit Gpt2Mlp(const Gpt2Config& config);
  Tensor forward(const Tensor& x) const;

  Gelu activation;
  Linear c_fc, c_proj;
  Dropout dropout;
};

struct CT_API Gpt2Block : Module {
  explicit Gpt2Block(const Gpt2Config& config);
  /// Takes and gives {x, y}: the stream of residuals is x + y (x alone if y is undefined). The sum is left to
  /// the next norm, which adds and normalises in one pass.
  std::array<Tensor, 2> forward(const Tensor& x, const Tensor& y, KvCache* cache, std::int64_t layer) const;

  LayerNorm ln_1;
  Gpt2Attention attn;
  LayerNorm ln_2;
  Gpt2Mlp mlp;
};

/// The model. Its parameters have the names of Hugging Face's GPT2LMHeadModel: "transformer.wte.weight",
/// "transformer.h.0.attn.c_attn.weight", ... With tied embeddings there is no "lm_head.weight". The weights
/// of c_attn, c_proj and c_fc are those of a Linear, [out, in]; Hugging Face's files hold them as [in, out],
/// and nn::models::load_huggingface() and nn::models::save_huggingface() transpose them.
///
/// Initial values: weights from N(0, initializer_range^2), those of the projections that write to the
/// residual stream (c_proj) divided by sqrt(2 n_layer); biases 0, norms 1. Throws ShapeError unless sizes are
/// positive and n_head divides n_embd, ValueError for a dropout outside [0, 1], and for a layer_norm_epsilon or
/// initializer_range that is negative or not finite.
class CT_API Gpt2 : public LanguageModel {
 public:
  explicit Gpt2(const Gpt2Config& config = {});
  Tensor hidden(const Tensor& tokens, KvCache* cache = nullptr) const override;
  const Parameter& head() const override { return lm_head_ ? lm_head_->weight() : wte_.weight(); }
  ModelSizes sizes() const override;
  std::optional<std::int64_t> begin_token() const override { return config_.bos_token_id; }
  std::vector<std::int64_t> end_tokens() const override { return config_.eos_token_ids; }
  /// dtype and device are those at construction.
  const Gpt2Config& config() const { return config_; }
  /// Draws new values.
  void reset_parameters();

 private:
  Gpt2Config config_;
  Module transformer_;
  Embedding wte_, wpe_;
  Dropout drop_;
  ModuleList<Gpt2Block> h_;
  LayerNorm ln_f_;
  std::optional<Linear> lm_head_;
};

}  // namespace ct::nn::models
