#include "examples/gpt/model.h"

#include <cotangent/nn/models/gpt2.h>
#include <cotangent/nn/models/huggingface.h>
#include <cotangent/nn/models/llama.h>

#include <filesystem>

#include "examples/common/run_folder.h"

namespace models = ct::nn::models;
namespace fs = std::filesystem;

std::unique_ptr<LanguageModel> make_model(const Options& o, std::int64_t vocabulary) {
  CT_CHECK(o.embd % o.heads == 0, ct::ShapeError, "gpt", "--heads ", o.heads, " does not divide --embd ",
           o.embd, "; choose numbers that do");
  if (o.model == "llama") {
    const std::int64_t kv_heads = o.kv_heads == 0 ? o.heads : o.kv_heads;
    CT_CHECK(o.heads % kv_heads == 0, ct::ShapeError, "gpt", "--kv-heads ", kv_heads,
             " does not divide --heads ", o.heads, "; choose numbers that do");
    CT_CHECK(o.embd / o.heads % 2 == 0, ct::ShapeError, "gpt", "--embd ", o.embd, " over --heads ", o.heads,
             " gives heads of ", o.embd / o.heads, "; rotary positions want an even number");
    models::LlamaConfig config;
    config.vocab_size = vocabulary;
    config.hidden_size = o.embd;
    config.intermediate_size = (o.embd * 8 / 3 + 31) / 32 * 32;  // as many weights as a part of width 4
    config.num_hidden_layers = o.layers;
    config.num_attention_heads = o.heads;
    config.num_key_value_heads = kv_heads;
    config.max_position_embeddings = o.block;
    config.attention_dropout = o.dropout;
    config.tie_word_embeddings = true;
    config.recompute = o.recompute;
    return std::make_unique<models::Llama>(config);
  }
  models::Gpt2Config config;
  config.vocab_size = vocabulary;
  config.n_positions = o.block;
  config.n_embd = o.embd;
  config.n_layer = o.layers;
  config.n_head = o.heads;
  config.recompute = o.recompute;
  config.embd_pdrop = config.attn_pdrop = config.resid_pdrop = o.dropout;
  return std::make_unique<models::Gpt2>(config);
}

ct::DType parse_dtype(const std::string& name) {
  if (name.ends_with("bf16")) return ct::bf16;
  return name.ends_with("f16") ? ct::f16 : ct::f32;
}

bool is_run(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(folder + "/" + RunFolder::kLast, ignored) ||
         fs::exists(folder + "/" + RunFolder::kBest, ignored);
}

Trained load_trained(const std::string& path, ct::Device device, ct::DType dtype, bool ema) {
  std::error_code ignored;
  Trained trained;
  if (fs::is_directory(path, ignored) && !is_run(path)) {
    CT_CHECK(!ema, ct::ValueError, "gpt", path,
             " is no run of this program and has no averaged weights; leave --ema out");
    trained.folder = path;
    trained.model = ct::nn::models::load_huggingface(path, {.dtype = dtype, .device = device});
    return trained;
  }
  // Best weights of a run.
  const std::string best = path + "/" + RunFolder::kBest;
  const std::string file = RunFolder::checkpoint_in("gpt", fs::exists(best, ignored) ? best : path);
  trained.folder = RunFolder::folder_of(file);
  trained.is_run = true;
  const Options o = read_config(trained.folder);
  const ct::StateDict saved = ct::io::load(file);
  const ct::StateDict weights = saved.part(ema ? "ema" : "model");
  CT_CHECK(weights.size() > 0, ct::IoError, "gpt", file,
           ema ? " has no averaged weights; train with --ema, or leave it out"
               : " is no checkpoint of this program; one is wanted");
  const ct::StateValue* vocabulary = saved.find_value("extra.vocabulary");
  CT_CHECK(vocabulary && std::get_if<std::int64_t>(vocabulary), ct::IoError, "gpt", file,
           " does not tell its vocabulary; a checkpoint of this program is wanted");
  {
    const ct::nn::init::Skip no_values;
    trained.model = make_model(o, std::get<std::int64_t>(*vocabulary));
  }
  const ct::nn::LoadReport report = trained.model->load_state_dict(weights, {.strict = !ema});
  for (const std::string& missing :
       report.missing)  // averages are of parameters; buffers come with the model
    for (const auto& [name, parameter] : trained.model->named_parameters())
      CT_CHECK(name != missing, ct::IoError, "gpt", file, " has no average of ", name,
               "; it is of another model");
  trained.model->to(device, dtype);
  trained.model->eval();
  return trained;
}
