#include "options.h"

#include <nanobind/stl/shared_ptr.h>

#include <cotangent/nn/models/gpt2.h>
#include <cotangent/nn/models/huggingface.h>
#include <cotangent/nn/models/llama.h>
#include <cotangent/nn/text/bpe.h>
#include <cotangent/nn/text/tokenizer.h>

// Text and what is made of it: tokenizers and language models.

namespace ct::python {
namespace {

using nn::models::KvCache, nn::models::LanguageModel;
using text::Tokenizer;

template <class M>
struct ModelOf : Model {
  using Model::Model;
};

void bind_text(nb::module_& m) {
  nb::borrow<nb::class_<Tokenizer>>(m.attr("Tokenizer"))
      .def(
          "decode",
          [](const Tokenizer& t, const std::vector<std::int64_t>& ids) {
            const std::string text = t.decode(ids);  // of a model, it may be no UTF-8
            return nb::bytes(text.data(), text.size()).attr("decode")("utf-8", "replace");
          },
          nb::arg("ids"), nb::sig("def decode(self, ids: collections.abc.Sequence[int]) -> str"))
      .def(
          "token_bytes",
          [](const Tokenizer& t, std::int64_t id) {
            const std::string bytes = t.token_bytes(id);
            return nb::bytes(bytes.data(), bytes.size());
          },
          nb::arg("id"));
  nb::borrow<nb::class_<text::CharTokenizer>>(m.attr("CharTokenizer"))
      .def_static("from_text", &text::CharTokenizer::from_text, nb::arg("text"));
  m.def(
      "load_tokenizer",
      [](nb::handle path) {
        return std::const_pointer_cast<Tokenizer>(
            text::load_tokenizer(read_path({"load_tokenizer", "path"}, path)));
      },
      nb::arg("path"),
      "The tokenizer of a file or folder: a tokenizer.json, or vocab.json and merges.txt. Throws IoError.");
}

void bind_language_model(nb::module_& m) {
  nb::class_<Model, nn::Module>(m, "LanguageModel", nb::dynamic_attr(),
                                "From the ids of tokens [B, T] to the logits of the next ones.")
      .def(
          "forward",
          [](const Model& model, const Tensor& tokens, KvCache* cache) {
            return cache != nullptr ? model.it->forward(tokens, *cache) : (*model.it)(tokens);
          },
          nb::arg("tokens"), nb::arg("cache") = nb::none(), Unlocked(),
          "Logits [B, T, V]; with a cache of tokens that follow those in it.")
      .def_prop_ro("begin_token", [](const Model& model) { return model.it->begin_token(); })
      .def_prop_ro("end_tokens", [](const Model& model) { return model.it->end_tokens(); });
}

template <class M, class Config>
void bind_model(nb::module_& m, const char* name, const char* doc) {
  nb::class_<ModelOf<M>, Model>(m, name, nb::dynamic_attr())
      .def(
          "__init__",
          [name](nb::pointer_and_handle<ModelOf<M>> self, const nb::kwargs& config) {
            new (self.p) ModelOf<M>(std::make_shared<M>(options_from<Config>(name, config)));
            self.h.attr("__dict__")["_made"] = nb::make_tuple(nb::make_tuple(), nb::borrow<nb::dict>(config));
          },
          doc);
}

void bind_families(nb::module_& m) {
  using nn::models::Gpt2, nn::models::Llama;
  bind_model<Gpt2, nn::models::Gpt2Config>(
      m, "Gpt2", "A new GPT-2; arguments are named as in config.json of Hugging Face's checkpoints.");
  bind_model<Llama, nn::models::LlamaConfig>(
      m, "Llama", "A new Llama; arguments are named as in config.json of Hugging Face's checkpoints.");
  m.def(
      "load_huggingface",
      [](nb::handle where, const nb::kwargs& more) {
        const auto options = options_from<nn::models::HuggingfaceLoadOptions>("load_huggingface", more);
        const std::shared_ptr<LanguageModel> model =
            nn::models::load_huggingface(read_path({"load_huggingface", "folder"}, where), options);
        const bool gpt2 = dynamic_cast<Gpt2*>(model.get()) != nullptr;
        return gpt2 ? nb::cast(ModelOf<Gpt2>(model)) : nb::cast(ModelOf<Llama>(model));
      },
      "load_huggingface(folder, dtype=None, device=\"cpu\"): the Gpt2 or Llama of a folder with config.json "
      "and safetensors, in evaluation mode. Throws IoError.");
  m.def(
      "save_huggingface",
      [](nb::handle folder, const Model& model) {
        nn::models::save_huggingface(read_path({"save_huggingface", "folder"}, folder), *model.it);
      },
      nb::arg("folder"), nb::arg("model"),
      "Writes a model so that `transformers` and load_huggingface() read it.");
}

}  // namespace

void bind_models(nb::module_& m) {
  nb::module_ text = m.attr("_text"), models = m.attr("_models");
  bind_text(text);
  bind_language_model(models);
  bind_families(models);
}

}  // namespace ct::python
