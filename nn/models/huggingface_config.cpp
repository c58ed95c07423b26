#include <cmath>
#include <initializer_list>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/printable.h>
#include <cotangent/nn/io/json.h>
#include <cotangent/nn/models/huggingface_internal.h>

namespace ct::nn::models {
namespace {

constexpr char kIn[] = "load_huggingface";

io::Json parse_object(const std::string& path, const std::string& text) {
  io::Json value =
      io::parse_json({kIn, path, "the text is", "it is truncated or another kind of file"}, text);
  CT_CHECK(value.is_object(), IoError, kIn, printable_path(path),
           " is not a JSON object; it is truncated or another kind of file");
  return value;
}

// Settings by name, with messages that name the file.
class Reader {
 public:
  Reader(const std::string& path, const io::Json& object) : path_(path), object_(object) {}

  bool has(const char* key) const { return find(key) != nullptr; }

  std::int64_t integer(const char* key, std::optional<std::int64_t> otherwise = {}) const {
    if (!has(key) && otherwise) return *otherwise;
    const io::Json& v = at(key);
    const auto n = v.integer();
    if (!n || *n < INT32_MIN || *n > INT32_MAX)
      fail("'", key, "' is ", v, "; it must be an integer of 32 bits");
    return *n;
  }
  double number(const char* key, std::optional<double> otherwise = {}) const {
    if (!has(key) && otherwise) return *otherwise;
    const io::Json& v = at(key);
    if (!v.number()) fail("'", key, "' is ", v, "; it must be a number");
    return *v.number();
  }
  double probability(const char* key, double otherwise) const {
    const double p = number(key, otherwise);
    if (!(p >= 0 && p <= 1)) fail("'", key, "' is ", p, "; a probability lies in [0, 1]");
    return p;
  }
  bool flag(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).boolean()) fail("'", key, "' is ", at(key), "; it must be true or false");
    return *at(key).boolean();
  }
  std::string text(const char* key, const char* otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).text()) fail("'", key, "' is ", at(key), "; it must be a text");
    return *at(key).text();
  }
  /// One id or a list of them.
  std::vector<std::int64_t> ids(const char* key) const {
    std::vector<std::int64_t> list;
    const auto add = [&](const io::Json& id) {
      if (!id.integer()) fail("'", key, "' is ", at(key), "; it must be a token id or a list");
      list.push_back(*id.integer());
    };
    if (!has(key)) return list;
    if (const io::Json::List* all = at(key).list())
      for (const io::Json& id : *all) add(id);
    else
      add(at(key));
    return list;
  }
  Reader object(const char* key) const {
    if (!at(key).is_object()) fail("'", key, "' is ", at(key), "; it must be an object");
    return {path_, at(key)};
  }
  /// A setting that has to have this value.
  void require(const char* key, bool value) const {
    if (flag(key, value) != value)
      fail("'", key, "' is ", value ? "false" : "true", "; this library implements only ",
           value ? "true" : "false");
  }
  template <class... Args>
  [[noreturn]] void fail(const Args&... args) const {
    ct::detail::fail<IoError>(kIn, printable_path(path_), ": ", args...);
  }

 private:
  // The member `key`; null if it is missing or JSON's null.
  const io::Json* find(const char* key) const {
    const io::Json* found = object_.find(key);
    return found && !found->is_null() ? found : nullptr;
  }
  const io::Json& at(const char* key) const {
    const io::Json* found = find(key);
    if (!found) fail("has no '", key, "'; the model cannot be made without it");
    return *found;
  }

  const std::string& path_;
  const io::Json& object_;
};

Gpt2Config read_gpt2(const Reader& r) {
  Gpt2Config c;
  c.vocab_size = r.integer("vocab_size");
  c.n_positions = r.integer("n_positions");
  c.n_embd = r.integer("n_embd");
  c.n_layer = r.integer("n_layer");
  c.n_head = r.integer("n_head");
  c.n_inner = r.integer("n_inner", 0);
  c.embd_pdrop = r.probability("embd_pdrop", 0.1);
  c.attn_pdrop = r.probability("attn_pdrop", 0.1);
  c.resid_pdrop = r.probability("resid_pdrop", 0.1);
  c.layer_norm_epsilon = r.number("layer_norm_epsilon", 1e-5);
  c.initializer_range = r.number("initializer_range", 0.02);
  c.tie_word_embeddings = r.flag("tie_word_embeddings", true);
  const std::string activation = r.text("activation_function", "gelu_new");
  if (activation == "gelu") {
    c.activation = Gelu::exact;
  } else if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    r.fail("'activation_function' is ", printable(activation),
           "; this library implements gelu_new, gelu_pytorch_tanh and gelu");
  }
  r.require("scale_attn_weights", true);
  r.require("scale_attn_by_inverse_layer_idx", false);
  r.require("add_cross_attention", false);
  return c;
}

// `rope_parameters` as transformers 5 writes it, or `rope_theta` and `rope_scaling` as earlier ones do.
void read_rope(const Reader& r, LlamaConfig& c) {
  const bool joined = r.has("rope_parameters");
  const char* key = joined ? "rope_parameters" : "rope_scaling";
  c.rope_theta = r.number("rope_theta", 10000);
  if (!r.has(key)) return;
  const Reader rope = r.object(key);
  c.rope_theta = rope.number("rope_theta", c.rope_theta);
  const std::string type = rope.text("rope_type", rope.text("type", "default").c_str());
  if (type == "default") return;
  if (type != "llama3")
    r.fail("'", key, "' has the type ", printable(type), "; this library implements 'default' and 'llama3'");
  c.rope_scaling =
      RopeScaling{rope.number("factor"), rope.number("low_freq_factor"), rope.number("high_freq_factor"),
                  rope.integer("original_max_position_embeddings")};
  const RopeScaling& s = *c.rope_scaling;
  if (!(s.factor > 0 && s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor &&
        s.original_max_position_embeddings > 0))
    r.fail("'", key,
           "' has factors out of range; they must be positive, and high_freq_factor above low_freq_factor");
}

LlamaConfig read_llama(const Reader& r) {
  LlamaConfig c;
  c.vocab_size = r.integer("vocab_size");
  c.hidden_size = r.integer("hidden_size");
  c.intermediate_size = r.integer("intermediate_size");
  c.num_hidden_layers = r.integer("num_hidden_layers");
  c.num_attention_heads = r.integer("num_attention_heads");
  c.num_key_value_heads = r.integer("num_key_value_heads", 0);
  c.head_dim = r.integer("head_dim", 0);
  c.max_position_embeddings = r.integer("max_position_embeddings", 2048);
  c.rms_norm_eps = r.number("rms_norm_eps", 1e-6);
  c.initializer_range = r.number("initializer_range", 0.02);
  c.attention_dropout = r.probability("attention_dropout", 0);
  c.attention_bias = r.flag("attention_bias", false);
  c.mlp_bias = r.flag("mlp_bias", false);
  c.tie_word_embeddings = r.flag("tie_word_embeddings", false);
  read_rope(r, c);
  if (const std::string act = r.text("hidden_act", "silu"); act != "silu" && act != "swish")
    r.fail("'hidden_act' is ", printable(act), "; this library implements silu");
  return c;
}

void check_positive(const Reader& r, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (const std::int64_t n = r.integer(key); n <= 0) r.fail("'", key, "' is ", n, "; it must be positive");
}

io::Json ids_to_json(const std::vector<std::int64_t>& ids) {
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? io::Json(ids[0]) : io::Json(io::Json::List(ids.begin(), ids.end()));
}

}  // namespace

HuggingfaceConfig parse_huggingface_config(const std::string& path, const std::string& text) {
  const io::Json object = parse_object(path, text);
  const Reader r(path, object);
  if (!r.has("model_type"))
    r.fail("has no 'model_type'; a config.json of transformers has one: 'gpt2' or 'llama'");
  if (r.has("quantization_config"))
    r.fail("the weights are quantised; this library reads F32, F64, F16 and BF16: save them as such first");
  const std::string type = r.text("model_type", "");
  const std::vector<std::int64_t> begin = r.ids("bos_token_id"), end = r.ids("eos_token_id");
  const auto finish = [&](auto config) {
    if (!begin.empty()) config.bos_token_id = begin.front();
    config.eos_token_ids = end;
    return HuggingfaceConfig(config);
  };
  if (type == "gpt2") {
    check_positive(r, {"vocab_size", "n_positions", "n_embd", "n_layer", "n_head"});
    return finish(read_gpt2(r));
  }
  if (type == "llama") {
    check_positive(
        r, {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"});
    return finish(read_llama(r));
  }
  r.fail("'model_type' is ", printable(type), "; this library reads 'gpt2' and 'llama'");
}

std::string huggingface_config_text(const HuggingfaceConfig& config, DType dtype) {
  constexpr const char* names[] = {"float32", "float64", "float16", "bfloat16"};
  std::vector<io::Json::Member> out;
  if (const auto* g = std::get_if<Gpt2Config>(&config)) {
    out = {{"architectures", io::Json::List{"GPT2LMHeadModel"}},
           {"model_type", "gpt2"},
           {"vocab_size", g->vocab_size},
           {"n_positions", g->n_positions},
           {"n_ctx", g->n_positions},
           {"n_embd", g->n_embd},
           {"n_layer", g->n_layer},
           {"n_head", g->n_head},
           {"n_inner", g->n_inner},
           {"activation_function", g->activation == Gelu::tanh ? "gelu_new" : "gelu"},
           {"embd_pdrop", g->embd_pdrop},
           {"attn_pdrop", g->attn_pdrop},
           {"resid_pdrop", g->resid_pdrop},
           {"layer_norm_epsilon", g->layer_norm_epsilon},
           {"initializer_range", g->initializer_range},
           {"tie_word_embeddings", g->tie_word_embeddings}};
  } else {
    const LlamaConfig& l = std::get<LlamaConfig>(config);
    out = {{"architectures", io::Json::List{"LlamaForCausalLM"}},
           {"model_type", "llama"},
           {"vocab_size", l.vocab_size},
           {"hidden_size", l.hidden_size},
           {"intermediate_size", l.intermediate_size},
           {"num_hidden_layers", l.num_hidden_layers},
           {"num_attention_heads", l.num_attention_heads},
           {"num_key_value_heads", l.num_key_value_heads},
           {"head_dim", l.head_dim},
           {"hidden_act", "silu"},
           {"max_position_embeddings", l.max_position_embeddings},
           {"rms_norm_eps", l.rms_norm_eps},
           {"initializer_range", l.initializer_range},
           {"attention_dropout", l.attention_dropout},
           {"attention_bias", l.attention_bias},
           {"mlp_bias", l.mlp_bias},
           {"tie_word_embeddings", l.tie_word_embeddings}};
    // The forms of transformers 4 and of transformers 5.
    std::vector<io::Json::Member> joined = {{"rope_type", "default"}};
    if (const auto& s = l.rope_scaling)
      joined = {{"rope_type", "llama3"},
                {"factor", s->factor},
                {"low_freq_factor", s->low_freq_factor},
                {"high_freq_factor", s->high_freq_factor},
                {"original_max_position_embeddings", s->original_max_position_embeddings}};
    joined.emplace_back("rope_theta", l.rope_theta);
    out.emplace_back("rope_theta", l.rope_theta);
    out.emplace_back("rope_scaling", l.rope_scaling ? io::Json::object(joined) : io::Json());
    out.emplace_back("rope_parameters", io::Json::object(joined));
  }
  std::visit(
      [&](const auto& c) {
        out.emplace_back("bos_token_id", c.bos_token_id ? io::Json(*c.bos_token_id) : io::Json());
        out.emplace_back("eos_token_id", ids_to_json(c.eos_token_ids));
      },
      config);
  for (const char* key : {"dtype", "torch_dtype"}) out.emplace_back(key, names[static_cast<int>(dtype)]);
  return io::Json::object(std::move(out)).dump("save_huggingface", 2) + '\n';
}

std::map<std::string, std::string> parse_huggingface_index(const std::string& path, const std::string& text) {
  const io::Json object = parse_object(path, text);
  const Reader r(path, object);
  const io::Json* map = object.find("weight_map");
  if (!map || !map->is_object())
    r.fail("has no object 'weight_map' from tensors to files; it is not an index of safetensors files");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : *map->members()) {
    const std::string* name = file.text();
    if (!name) r.fail("the file of ", printable(tensor), " is ", file, "; it must be a name");
    if (name->empty() || *name == "." || *name == ".." || name->find('/') != std::string::npos ||
        name->find('\0') != std::string::npos)
      r.fail("the file of ", printable(tensor), " is ", printable(*name),
             "; files lie in the folder of the index");
    files[tensor] = *name;
  }
  return files;
}

}  // namespace ct::nn::models
