#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/module.h>

namespace ct::nn::models {

/// The measures that all language models have.
struct ModelSizes {
  std::int64_t vocabulary = 0;  ///< token ids are in [0, vocabulary)
  std::int64_t max_length = 0;  ///< the most tokens of one sequence
  std::int64_t layers = 0;
  std::int64_t width = 0;  ///< of the hidden states
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< equal to heads unless several of them share keys and values
  std::int64_t head_dim = 0;
};

/// The keys and values of all layers for the tokens that a model has seen, so that each further token costs
/// one token's work. All memory is taken at once; appending writes into it.
///
///     KvCache cache = model.make_cache(1);
///     Tensor logits = model.forward(prompt, cache);      // [1, T, V]
///     logits = model.forward(next_token, cache);         // [1, 1, V]
class CT_API KvCache {
 public:
  /// Room for `capacity` tokens of `batch` sequences. Throws ShapeError for negative sizes.
  KvCache(const ModelSizes& model, std::int64_t batch, std::int64_t capacity, DType dtype, Device device);
  KvCache(KvCache&&) = default;
  KvCache& operator=(KvCache&&) = default;

  /// The number of tokens that all layers have seen.
  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }
  std::int64_t batch() const { return batch_; }
  std::int64_t nbytes() const;
  /// Forgets all tokens but the first `length`. Throws ValueError unless 0 <= length <= length().
  void truncate(std::int64_t length);

  // ---- Used by models ----------------------------------------------------------------------------------
  struct KeysValues {
    Tensor keys, values;
  };
  /// Writes the keys and values [batch, kv_heads, T, head_dim] of the next T tokens of one layer behind those
  /// of the tokens before, and gives views of all of them: [batch, kv_heads, length() + T, head_dim]. Throws
  /// ShapeError if there is no room or shapes do not fit, IndexError for a layer that does not exist, and
  /// AutogradError while recording if they require a gradient, which would be lost on the way.
  KeysValues append(std::int64_t layer, const Tensor& keys, const Tensor& values);
  /// Counts T tokens, once all layers have appended theirs. Throws ValueError where there is no room for
  /// them.
  void advance(std::int64_t tokens);

 private:
  std::vector<KeysValues> layers_;
  std::int64_t length_ = 0, capacity_ = 0, batch_ = 0;
};

struct LossOptions {
  /// Targets of this value do not count.
  std::int64_t ignore_index = -100;
  /// Whether output layer and loss are one op (linear_cross_entropy), which never holds the logits of all
  /// positions, and whose loss is f32. Otherwise they are held, [B T, vocabulary], their gradient is written
  /// over them (under Autocast they are there in its dtype and in f32), and the loss has their dtype.
  bool fused = true;
};

struct GenerateOptions {
  std::int64_t max_new_tokens = 100;
  /// Logits are divided by it; 0 takes the most likely token.
  double temperature = 1;
  /// Draw only from the k most likely tokens; 0: from all.
  std::int64_t top_k = 0;
  /// Draw only from the most likely tokens that together have this probability.
  double top_p = 1;
  /// A sequence ends behind one of these, which are in [0, vocabulary). It is filled up with the first of
  /// them while others of the batch go on. Empty: nothing ends it, not even the model's end_tokens().
  std::vector<std::int64_t> stop_tokens = {};
  /// Called with the new ids, i64 [B] on the CPU, after each step; false ends the generation.
  std::function<bool(const Tensor& ids)> on_token = {};
};

/// A causal language model: from token ids to a distribution over the next token. Gpt2 and Llama are used
/// through it alike; nn::models::load_huggingface() returns one.
///
/// Token ids are i64 or i32 [B, T], in [0, vocabulary) (else IndexError), with T <= max_length (else
/// ShapeError); they are on the model's device.
class CT_API LanguageModel : public Module {
 public:
  LanguageModel() = default;
  LanguageModel(const LanguageModel&) = default;
  LanguageModel(LanguageModel&&) noexcept = default;
  LanguageModel& operator=(const LanguageModel&) = default;
  LanguageModel& operator=(LanguageModel&&) = default;
  ~LanguageModel() override = default;

  // ---- Defined by a model -----------------------------------------------------------------------------
  virtual ModelSizes sizes() const = 0;
  /// The states after the last norm, [B, T, width]: position i depends on tokens 0 ... i. With a cache the
  /// tokens follow those that it has seen; it takes part in no gradient, so the call is made under NoGrad
  /// (else AutogradError, unless all that leads to keys and values is frozen).
  virtual Tensor hidden(const Tensor& tokens, KvCache* cache = nullptr) const = 0;
  /// The weight [vocabulary, width] that turns hidden states into logits; it may be shared with the token
  /// embedding.
  virtual const Parameter& head() const = 0;
  /// The token that a text begins with, if the model knows one.
  virtual std::optional<std::int64_t> begin_token() const { return {}; }
  /// The tokens that end a text; none if the model does not know.
  virtual std::vector<std::int64_t> end_tokens() const { return {}; }

  // ---- Derived from that -------------------------------------------------------------------------------
  /// Logits [B, T, vocabulary] of the token after each position.
  Tensor forward(const Tensor& tokens) const;
  Tensor operator()(const Tensor& tokens) const { return call(*this, tokens); }
  /// The same for tokens that follow those in the cache; theirs are added to it. Nothing is recorded.
  Tensor forward(const Tensor& tokens, KvCache& cache) const;
  /// The mean cross-entropy of the targets i64 or i32 [B, T], of which target [b, i] is the token after
  /// token [b, i].
  Tensor loss(const Tensor& tokens, const Tensor& targets, const LossOptions& options = {}) const;

  /// Continues the prompt [B, T], T > 0, token by token with a cache; gives the prompt and the new tokens,
  /// i64 [B, T + n] on the prompt's device. Each step takes one draw of `generator` (none with temperature
  /// 0). Dropout acts if the model is in training mode. When the model's length is reached, the newer half of
  /// the text becomes the new context, so texts of any length can be written. Throws ShapeError, IndexError,
  /// and ValueError for options out of range.
  Tensor generate(const Tensor& prompt, const GenerateOptions& options = {},
                  Generator& generator = default_generator()) const;

  /// An empty cache of the dtype of attention (the model's, or that of an Autocast in force) on the model's
  /// device; `capacity` 0 means max_length.
  KvCache make_cache(std::int64_t batch, std::int64_t capacity = 0) const;

 protected:
  /// Throws ShapeError or DTypeError unless `tokens` can be worked on (behind those in the cache).
  void check_tokens(const char* op, const Tensor& tokens, const KvCache* cache) const;
};

}  // namespace ct::nn::models
