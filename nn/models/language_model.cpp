#include <cotangent/nn/models/language_model.h>

#include <algorithm>
#include <cmath>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/error.h>
#include <cotangent/ops/autocast.h>
#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/linear/linear.h>
#include <cotangent/ops/loss/classes/cross_entropy.h>
#include <cotangent/ops/loss/head/linear_cross_entropy.h>
#include <cotangent/ops/sampling/sampling.h>

namespace ct::nn::models {
KvCache::KvCache(const ModelSizes& model, std::int64_t batch, std::int64_t capacity, DType dtype,
                 Device device)
    : capacity_(capacity), batch_(batch) {
  CT_CHECK(batch >= 0 && capacity >= 0, ShapeError, "kv_cache", "got a batch of ", batch,
           " and a capacity of ", capacity, "; sizes must be >= 0");
  const Shape shape{batch, model.kv_heads, capacity, model.head_dim};
  for (std::int64_t i = 0; i < model.layers; ++i)
    layers_.push_back({Tensor::allocate(shape, dtype, device), Tensor::allocate(shape, dtype, device)});
}

std::int64_t KvCache::nbytes() const {
  std::int64_t bytes = 0;
  for (const KeysValues& l : layers_) bytes += l.keys.nbytes() + l.values.nbytes();
  return bytes;
}

void KvCache::truncate(std::int64_t length) {
  CT_CHECK(0 <= length && length <= length_, ValueError, "kv_cache", "truncate to ", length,
           " tokens; the cache holds ", length_, ": pass at most so many, and at least 0");
  length_ = length;
}

KvCache::KeysValues KvCache::append(std::int64_t layer, const Tensor& keys, const Tensor& values) {
  CT_CHECK(0 <= layer && layer < static_cast<std::int64_t>(layers_.size()), IndexError, "kv_cache",
           "there is no layer ", layer, "; the cache was made for ", layers_.size(),
           " layers: make one for this model");
  KeysValues& all = layers_[static_cast<std::size_t>(layer)];
  Shape wanted = all.keys.shape();
  wanted[2] = keys.dim() == 4 ? keys.size(2) : 0;
  CT_CHECK(keys.shape() == wanted && values.shape() == wanted, ShapeError, "kv_cache", "got keys ",
           describe(keys), " and values ", describe(values), "; the cache takes [", wanted[0], ", ",
           wanted[1], ", T, ", wanted[3], ']');
  const std::int64_t tokens = wanted[2], end = length_ + tokens;
  CT_CHECK(end <= capacity_, ShapeError, "kv_cache", "there are ", length_, " tokens and ", tokens,
           " more, but room for ", capacity_, "; make a larger cache or truncate() it");
  CT_CHECK(!(grad_enabled() && (keys.requires_grad() || values.requires_grad())), AutogradError, "kv_cache",
           "keys and values require a gradient, and the cache keeps none; use a NoGrad guard, or leave the "
           "cache out");
  const NoGrad guard;
  all.keys.narrow(2, length_, tokens).copy_(keys);
  all.values.narrow(2, length_, tokens).copy_(values);
  return {all.keys.narrow(2, 0, end), all.values.narrow(2, 0, end)};
}

void KvCache::advance(std::int64_t tokens) {
  CT_CHECK(0 <= tokens && tokens <= capacity_ - length_, ValueError, "kv_cache", "advance by ", tokens,
           " tokens; the cache holds ", length_, " of at most ", capacity_,
           ": make a larger one or truncate() it");
  length_ += tokens;
}

Tensor LanguageModel::forward(const Tensor& tokens) const { return linear(hidden(tokens), head()); }

Tensor LanguageModel::forward(const Tensor& tokens, KvCache& cache) const {
  const NoGrad guard;
  return linear(hidden(tokens, &cache), head());
}

Tensor LanguageModel::loss(const Tensor& tokens, const Tensor& targets, const LossOptions& options) const {
  CT_CHECK(tokens.shape() == targets.shape(), ShapeError, "loss", "tokens are ", describe(tokens),
           ", targets ", describe(targets), "; each token has one target: pass tensors of one shape");
  if (!options.fused)
    return cross_entropy(forward(tokens).flatten(0, 1), targets.flatten(),
                         {.ignore_index = options.ignore_index});
  return linear_cross_entropy(hidden(tokens), head(), targets, {.ignore_index = options.ignore_index});
}

Tensor LanguageModel::generate(const Tensor& prompt, const GenerateOptions& options,
                               Generator& generator) const {
  CT_CHECK(options.max_new_tokens >= 0, ValueError, "generate", "max_new_tokens is ", options.max_new_tokens,
           "; it must be >= 0");
  CT_CHECK(options.temperature >= 0 && std::isfinite(options.temperature) && options.top_k >= 0 &&
               options.top_p > 0 && options.top_p <= 1,
           ValueError, "generate", "temperature is ", options.temperature, ", top_k ", options.top_k,
           ", top_p ", options.top_p, "; temperature must be finite and >= 0, top_k >= 0, top_p in (0, 1]");
  // Out of the vocabulary they would be found later: where a sequence has ended, the model reads them.
  for (const std::int64_t id : options.stop_tokens)
    CT_CHECK(0 <= id && id < sizes().vocabulary, ValueError, "generate", "stop token ", id,
             " is none of the model's; token ids are in [0, ", sizes().vocabulary, "): leave it out");
  check_tokens("generate", prompt, nullptr);
  CT_CHECK(prompt.size(1) > 0, ShapeError, "generate", "the prompt is ", describe(prompt),
           "; it must have at least one token");
  const NoGrad guard;
  const std::int64_t batch = prompt.size(0), most = sizes().max_length;
  KvCache cache = make_cache(batch, prompt.size(1) + std::min(most - prompt.size(1), options.max_new_tokens));
  std::vector<Tensor> text = {prompt.to(i64)};
  std::vector<bool> ended(static_cast<std::size_t>(batch), false);
  Tensor next = text[0];
  for (std::int64_t step = 0; step < options.max_new_tokens; ++step) {
    if (cache.length() + next.size(1) > most) {
      // Positions are used up: the newer half is read again as the beginning of a text.
      const Tensor all = concat(text, 1);
      const std::int64_t kept = std::max<std::int64_t>(1, most / 2);
      next = all.narrow(1, all.size(1) - kept, kept);
      text = {all};
      cache.truncate(0);
    }
    const Tensor states = hidden(next, &cache);
    const Tensor logits = linear(states.select(1, states.size(1) - 1), head());  // [B, V]
    Tensor ids = sample_logits(
        logits, {.temperature = options.temperature, .top_k = options.top_k, .top_p = options.top_p},
        generator);
    bool go_on = true;
    if (options.on_token || !options.stop_tokens.empty()) {
      Tensor host = ids.to(cpu);
      if (!options.stop_tokens.empty()) {
        auto* id = host.data<std::int64_t>();
        for (std::size_t b = 0; b < ended.size(); ++b) {
          if (ended[b]) id[b] = options.stop_tokens.front();
          ended[b] = ended[b] || std::ranges::count(options.stop_tokens, id[b]) > 0;
        }
        ids = host.to(prompt.device());
        go_on = std::ranges::count(ended, false) > 0;
      }
      if (options.on_token) go_on = options.on_token(host) && go_on;
    }
    next = ids.unsqueeze(1);
    text.push_back(next);
    if (!go_on) break;
  }
  return concat(text, 1);
}

KvCache LanguageModel::make_cache(std::int64_t batch, std::int64_t capacity) const {
  const ModelSizes s = sizes();
  const DType dtype = autocast_enabled() ? autocast_dtype() : head()->dtype();
  return {s, batch, capacity != 0 ? capacity : s.max_length, dtype, head()->device()};
}

void LanguageModel::check_tokens(const char* op, const Tensor& tokens, const KvCache* cache) const {
  CT_CHECK(tokens.dim() == 2, ShapeError, op, "tokens are ", describe(tokens),
           "; they must be [batch, length]: unsqueeze(0) makes a batch of one");
  CT_CHECK(tokens.dtype() == i64 || tokens.dtype() == i32, DTypeError, op, "tokens are ", describe(tokens),
           "; token ids are i64 or i32: convert with .to(i64)");
  const std::int64_t past = cache ? cache->length() : 0, most = sizes().max_length;
  CT_CHECK(past + tokens.size(1) <= most, ShapeError, op, "got ", past + tokens.size(1),
           " tokens of one sequence", past > 0 ? " (with those in the cache)" : "", "; the model has ", most,
           " positions: pass the last ", most, " tokens, or make a model with more");
  CT_CHECK(!cache || cache->batch() == tokens.size(0), ShapeError, op, "tokens are ", describe(tokens),
           ", the cache is for ", cache->batch(), " sequences; make a cache for this batch");
}

}  // namespace ct::nn::models
