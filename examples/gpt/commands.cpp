#include "examples/gpt/commands.h"

#include <cotangent/cotangent.h>
#include <cotangent/nn/models/huggingface.h>

#include <cstdio>
#include <filesystem>

#include "examples/common/device.h"
#include "examples/common/interrupts.h"
#include "examples/common/text_file.h"
#include "examples/gpt/corpus.h"
#include "examples/gpt/model.h"
#include "examples/gpt/writing.h"

namespace fs = std::filesystem;

int generate(const GenerateOptionsLine& o) {
  if (o.threads > 0) ct::set_num_threads(o.threads);
  const Trained trained =
      load_trained(o.checkpoint, usable_device("gpt", o.device), parse_dtype(o.dtype), o.ema);
  const auto tokenizer = ct::text::load_tokenizer(o.tokenizer.empty() ? trained.folder : o.tokenizer);
  // A text that this program has trained on begins with nothing else; models from elsewhere know a token.
  const std::vector<std::int64_t> begin =
      trained.is_run ? std::vector<std::int64_t>() : tokenizer->beginning();
  watch_interrupts();
  for (std::int64_t n = 0; n < o.samples && !interrupted(); ++n) {
    ct::Generator draws(o.seed + static_cast<std::uint64_t>(n));
    if (o.samples > 1) std::printf("--- %lld ---\n", static_cast<long long>(n) + 1);
    write_text(*trained.model, *tokenizer, begin, o.prompt,
               {.max_new_tokens = o.length,
                .temperature = o.temperature,
                .top_k = o.top_k,
                .top_p = o.top_p,
                .stop_tokens = readable_end_tokens(*trained.model)},
               draws);
    std::printf("\n");
  }
  return interrupted() ? 130 : 0;
}

int logits(const LogitsOptions& o) {
  if (o.threads > 0) ct::set_num_threads(o.threads);
  const ct::Device device = usable_device("gpt", o.device);
  const Trained trained = load_trained(o.model, device, parse_dtype(o.dtype), false);
  const ct::Tensor read = ct::io::load_npy(o.tokens);
  CT_CHECK((read.dim() == 1 || read.dim() == 2) && !ct::is_floating(read.dtype()), ct::IoError, "gpt",
           o.tokens, " holds ", ct::describe(read), "; integers of shape [T] or [B, T] are wanted");
  const ct::Tensor tokens = (read.dim() == 1 ? read.unsqueeze(0) : read).to(ct::i64).contiguous();
  const std::int64_t vocabulary = trained.model->sizes().vocabulary;
  for (const std::int64_t id : tokens.to_vector<std::int64_t>())
    CT_CHECK(id >= 0 && id < vocabulary, ct::IndexError, "gpt", o.tokens, " holds the token ", id,
             "; the model knows those in [0, ", vocabulary, ")");
  const ct::NoGrad guard;
  const ct::Tensor all = trained.model->forward(tokens.to(device)).to(ct::f32).to(ct::cpu);
  const ct::Tensor result = read.dim() == 1 ? all.squeeze(0) : all;
  ct::io::save_npy(o.out, result);
  std::printf("%s: %s\n", o.out.c_str(), ct::describe(result).c_str());
  return 0;
}

int export_model(const ExportOptions& o) {
  // A run's config.json has the name of a model's: written over, the run could not be used any more.
  CT_CHECK(!is_run(o.out), ct::IoError, "gpt", "--out ", o.out,
           " holds a run, whose config.json would be lost; choose another folder");
  const Trained trained = load_trained(o.checkpoint, ct::cpu, ct::f32, o.ema);
  std::error_code ignored;
  // All is read before anything is written.
  std::shared_ptr<const ct::text::Tokenizer> tokenizer;
  if (fs::exists(trained.folder + "/tokenizer.json", ignored) ||
      fs::exists(trained.folder + "/vocab.json", ignored))
    tokenizer = ct::text::load_tokenizer(trained.folder);
  // Without this file `transformers` takes GPT-2's own tokenizer for every model of that kind.
  const char* const settings_name = "/tokenizer_config.json";
  std::string settings =
      "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"clean_up_tokenization_spaces\": false}\n";
  if (tokenizer && fs::exists(trained.folder + settings_name, ignored))
    settings = read_text("gpt", trained.folder + settings_name);
  ct::nn::models::save_huggingface(o.out, *trained.model);
  if (tokenizer) {
    tokenizer->save(o.out + "/tokenizer.json");
    ct::io::write_file(o.out + settings_name, settings);
  }
  std::printf(
      "%s: config.json, model.safetensors%s\n", o.out.c_str(),
      tokenizer ? ", tokenizer.json, tokenizer_config.json" : "; no tokenizer, as the model has none");
  return 0;
}

int tokenize(const TokenizeOptions& o) {
  const auto tokenizer = ct::text::load_tokenizer(o.tokenizer);
  const std::string text = read_text("gpt", o.text);
  const auto ids = tokenizer->encode(text);
  using ct::data::TokenFormat;
  ct::data::save_tokens(o.out, ids,
                        o.format == "llmc"     ? TokenFormat::llmc
                        : o.format == "llmc32" ? TokenFormat::llmc32
                                               : TokenFormat::raw);
  if (!o.decoded.empty()) ct::io::write_file(o.decoded, tokenizer->decode(ids));
  std::printf("%s: %zu tokens of %zu bytes, vocabulary %lld\n", o.out.c_str(), ids.size(), text.size(),
              static_cast<long long>(tokenizer->vocab_size()));
  return 0;
}
