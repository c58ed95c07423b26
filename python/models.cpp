#include "options.h"

#include <nanobind/stl/shared_ptr.h>

#include <cotangent/nn/io/huggingface.h>
#include <cotangent/nn/models/gpt2.h>
#include <cotangent/nn/models/llama.h>
#include <cotangent/nn/text/bpe.h>
#include <cotangent/nn/text/tokenizer.h>

// Text and what is made of it: tokenizers and language models.

namespace ct::python {
namespace {

using nn::models::KvCache, nn::models::LanguageModel;
using text::Tokenizer;

// A model has virtual functions and the Module that it is derived from has none, so the two do not begin at one
// address, as Python's classes must: its class is a handle of the module and of the model.
struct Model : nn::Module {
  explicit Model(std::shared_ptr<LanguageModel> from) : Module(*from), it(std::move(from)) {}
  std::shared_ptr<LanguageModel> it;
};
template <class M>
struct ModelOf : Model {
  using Model::Model;
};

void bind_text(nb::module_& m) {
  nb::class_<Tokenizer>(m, "Tokenizer", "Turns text into the ids of tokens, and back.")
      .def_prop_ro("vocab_size", &Tokenizer::vocab_size)
      .def(
          "encode", [](const Tokenizer& t, const std::string& text) { return t.encode(text); },
          nb::arg("text"), Unlocked(), "The ids of a text's tokens; ct.tensor() makes a tensor of them.")
      .def(
          "decode",
          [](const Tokenizer& t, const std::vector<std::int64_t>& ids) {
            const std::string text = t.decode(ids);  // of a model, it may be no UTF-8
            return nb::steal(
                PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
          },
          nb::arg("ids"))
      .def("beginning", &Tokenizer::beginning, "The ids that the file puts in front of a text.")
      .def(
          "token_bytes",
          [](const Tokenizer& t, std::int64_t id) {
            const std::string bytes = t.token_bytes(id);
            return nb::bytes(bytes.data(), bytes.size());
          },
          nb::arg("id"))
      .def(
          "save", [](const Tokenizer& t, nb::handle path) { t.save(read_path("save", path)); },
          nb::arg("path"));
  nb::class_<text::CharTokenizer, Tokenizer>(m, "CharTokenizer", "Every character of a text is a token.")
      .def_static("from_text", &text::CharTokenizer::from_text, nb::arg("text"));
  nb::class_<text::BpeTokenizer, Tokenizer>(m, "BpeTokenizer", "Byte-pair encoding: GPT-2, Llama.")
      .def("find_token", &text::BpeTokenizer::find_token, nb::arg("text"),
           "The id of a token as the file writes it, or -1.");
  m.def(
      "load_tokenizer",
      [](nb::handle path) {
        return std::const_pointer_cast<Tokenizer>(text::load_tokenizer(read_path("load_tokenizer", path)));
      },
      nb::arg("path"),
      "The tokenizer of a file or folder: a tokenizer.json, or vocab.json and merges.txt. Throws IoError.");
}

void bind_language_model(nb::module_& m) {
  nb::class_<KvCache>(m, "KvCache", "Keys and values of the tokens that a model has seen.")
      .def_prop_ro("length", &KvCache::length)
      .def_prop_ro("capacity", &KvCache::capacity)
      .def("truncate", &KvCache::truncate, nb::arg("length"));
  const auto forward = [](const Model& model, const Tensor& tokens, KvCache* cache) {
    return cache != nullptr ? model.it->forward(tokens, *cache) : (*model.it)(tokens);
  };
  nb::class_<Model, nn::Module>(m, "LanguageModel", nb::dynamic_attr(),
                                "From the ids of tokens [B, T] to the logits of the next ones.")
      .def("forward", forward, nb::arg("tokens"), nb::arg("cache") = nb::none(), Unlocked(),
           "Logits [B, T, V]; with a cache of tokens that follow those in it.")
      .def(
          "hidden", [](const Model& model, const Tensor& tokens) { return model.it->hidden(tokens); },
          nb::arg("tokens"), Unlocked(), "The states after the last norm, [B, T, width].")
      .def(
          "loss",
          [](const Model& model, const Tensor& tokens, const Tensor& targets, const nb::kwargs& more) {
            using nn::models::LossOptions;
            const auto options = read_options<LossOptions>("loss", more, CT_FIELD(LossOptions, ignore_index),
                                                           CT_FIELD(LossOptions, fused));
            const Released unlocked;
            return model.it->loss(tokens, targets, options);
          },
          "loss(tokens, targets): the mean cross-entropy of the tokens that follow.")
      .def(
          "generate",
          [](const Model& model, const Tensor& prompt, const nb::kwargs& more) {
            using nn::models::GenerateOptions;
            const auto options = read_options<GenerateOptions>(
                "generate", more, CT_FIELD(GenerateOptions, max_new_tokens),
                CT_FIELD(GenerateOptions, temperature), CT_FIELD(GenerateOptions, top_k),
                CT_FIELD(GenerateOptions, top_p), CT_FIELD(GenerateOptions, stop_tokens),
                CT_FIELD(GenerateOptions, on_token));
            const Released unlocked;
            return model.it->generate(prompt, options);
          },
          "generate(prompt, max_new_tokens=100, temperature=1.0, top_k=0, top_p=1.0, stop_tokens=[], "
          "on_token=None): "
          "the prompt [B, T] and the tokens that follow; on_token(ids) is called with each, and False ends "
          "it.")
      .def(
          "make_cache",
          [](const Model& model, std::int64_t batch, std::int64_t capacity) {
            return model.it->make_cache(batch, capacity);
          },
          nb::arg("batch"), nb::arg("capacity") = 0)
      .def_prop_ro("begin_token", [](const Model& model) { return model.it->begin_token(); })
      .def_prop_ro("end_tokens", [](const Model& model) { return model.it->end_tokens(); });
}

template <class M, class Config, class... Types>
void bind_model(nb::module_& m, const char* name, const char* doc, const Field<Config, Types>&... fields) {
  nb::class_<ModelOf<M>, Model>(m, name, nb::dynamic_attr())
      .def(
          "__init__",
          [name, fields...](nb::pointer_and_handle<ModelOf<M>> self, const nb::kwargs& config) {
            new (self.p) ModelOf<M>(std::make_shared<M>(read_options<Config>(name, config, fields...)));
            self.h.attr("__dict__")["_made"] = nb::make_tuple(nb::make_tuple(), nb::borrow<nb::dict>(config));
          },
          doc);
}

void bind_families(nb::module_& m) {
  using nn::models::Gpt2Config, nn::models::LlamaConfig;
  bind_model<nn::models::Gpt2>(
      m, "Gpt2", "A new GPT-2; arguments are named as in config.json of Hugging Face's checkpoints.",
      CT_FIELD(Gpt2Config, vocab_size), CT_FIELD(Gpt2Config, n_positions), CT_FIELD(Gpt2Config, n_embd),
      CT_FIELD(Gpt2Config, n_layer), CT_FIELD(Gpt2Config, n_head), CT_FIELD(Gpt2Config, n_inner),
      CT_FIELD(Gpt2Config, embd_pdrop), CT_FIELD(Gpt2Config, attn_pdrop), CT_FIELD(Gpt2Config, resid_pdrop),
      CT_FIELD(Gpt2Config, layer_norm_epsilon), CT_FIELD(Gpt2Config, initializer_range),
      CT_FIELD(Gpt2Config, activation), CT_FIELD(Gpt2Config, tie_word_embeddings),
      CT_FIELD(Gpt2Config, bos_token_id), CT_FIELD(Gpt2Config, eos_token_ids), CT_FIELD(Gpt2Config, bias),
      CT_FIELD(Gpt2Config, recompute), CT_FIELD(Gpt2Config, dtype), CT_FIELD(Gpt2Config, device));
  bind_model<nn::models::Llama>(
      m, "Llama", "A new Llama; arguments are named as in config.json of Hugging Face's checkpoints.",
      CT_FIELD(LlamaConfig, vocab_size), CT_FIELD(LlamaConfig, hidden_size),
      CT_FIELD(LlamaConfig, intermediate_size), CT_FIELD(LlamaConfig, num_hidden_layers),
      CT_FIELD(LlamaConfig, num_attention_heads), CT_FIELD(LlamaConfig, num_key_value_heads),
      CT_FIELD(LlamaConfig, head_dim), CT_FIELD(LlamaConfig, max_position_embeddings),
      CT_FIELD(LlamaConfig, rope_theta), CT_FIELD(LlamaConfig, rope_scaling),
      CT_FIELD(LlamaConfig, rms_norm_eps), CT_FIELD(LlamaConfig, initializer_range),
      CT_FIELD(LlamaConfig, attention_dropout), CT_FIELD(LlamaConfig, attention_bias),
      CT_FIELD(LlamaConfig, mlp_bias), CT_FIELD(LlamaConfig, tie_word_embeddings),
      CT_FIELD(LlamaConfig, bos_token_id), CT_FIELD(LlamaConfig, eos_token_ids),
      CT_FIELD(LlamaConfig, recompute), CT_FIELD(LlamaConfig, dtype), CT_FIELD(LlamaConfig, device));
  m.def(
      "load_huggingface",
      [](nb::handle where, const nb::kwargs& more) -> nb::object {
        using io::HuggingfaceLoadOptions;
        const auto options = read_options<HuggingfaceLoadOptions>("load_huggingface", more,
                                                                  CT_FIELD(HuggingfaceLoadOptions, dtype),
                                                                  CT_FIELD(HuggingfaceLoadOptions, device));
        const std::shared_ptr<LanguageModel> model =
            io::load_huggingface(read_path("load_huggingface", where), options);
        if (dynamic_cast<nn::models::Gpt2*>(model.get()) != nullptr)
          return nb::cast(ModelOf<nn::models::Gpt2>(model));
        return nb::cast(ModelOf<nn::models::Llama>(model));
      },
      "load_huggingface(folder, dtype=None, device=\"cpu\"): the Gpt2 or Llama of a folder with config.json "
      "and "
      "safetensors, in evaluation mode. Throws IoError.");
  m.def(
      "save_huggingface",
      [](nb::handle folder, const Model& model) {
        io::save_huggingface(read_path("save_huggingface", folder), *model.it);
      },
      nb::arg("folder"), nb::arg("model"),
      "Writes a model so that `transformers` and load_huggingface() read it.");
}

}  // namespace

void bind_models(nb::module_& m) {
  auto text = m.def_submodule("_text", "Tokenizers");
  bind_text(text);
  auto models = m.def_submodule("_models", "Language models");
  bind_language_model(models);
  bind_families(models);
}

}  // namespace ct::python
