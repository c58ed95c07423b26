#pragma once

#include <memory>
#include <vector>

#include <cotangent/cotangent.h>

// Helpers for the tests of nn/models: models of odd sizes that answer at once.

namespace ct::testing {

inline nn::models::Gpt2Config gpt2_config() {
  return {.vocab_size = 31,
          .n_positions = 16,
          .n_embd = 12,
          .n_layer = 2,
          .n_head = 3,
          .embd_pdrop = 0,
          .attn_pdrop = 0,
          .resid_pdrop = 0,
          .initializer_range = 0.3};
}

inline nn::models::LlamaConfig llama_config() {
  return {.vocab_size = 29,
          .hidden_size = 12,
          .intermediate_size = 20,
          .num_hidden_layers = 2,
          .num_attention_heads = 3,
          .num_key_value_heads = 1,
          .max_position_embeddings = 16,
          .initializer_range = 0.3,
          .eos_token_ids = {7}};
}

/// A Gpt2 and a Llama of these sizes, for evaluation; the same values every time.
inline std::vector<std::unique_ptr<nn::models::LanguageModel>> both_models() {
  manual_seed(11);
  std::vector<std::unique_ptr<nn::models::LanguageModel>> models;
  models.push_back(std::make_unique<nn::models::Gpt2>(gpt2_config()));
  models.push_back(std::make_unique<nn::models::Llama>(llama_config()));
  for (const auto& m : models) m->eval();
  return models;
}

inline double largest(const Tensor& t) { return amax(ct::abs(t.detach())).item(); }

}  // namespace ct::testing
