#include <cotangent/nn/models/huggingface.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/error.h>
#include <cotangent/nn/init.h>
#include <cotangent/nn/io/atomic_file.h>
#include <cotangent/nn/io/json.h>
#include <cotangent/nn/io/safetensors_internal.h>
#include <cotangent/nn/models/huggingface_internal.h>
#include <cotangent/ops/creation/creation.h>

namespace ct::nn::models {
namespace {

constexpr char kLoad[] = "load_huggingface";
constexpr char kSave[] = "save_huggingface";
constexpr char kSingle[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kHead[] = "lm_head.weight";

// The text of a file of settings.
std::string read_text(const std::string& path) {
  return io::read_text_file(kLoad, path, std::uint64_t{64} << 20);
}

// ---- what differs between the kinds of models ------------------------------------------------------------

struct Kind {
  const char* prefix;     // of all names but that of the head
  const char* embedding;  // what a tied head shares
};
constexpr Kind kGpt2 = {"transformer.", "transformer.wte.weight"};
constexpr Kind kLlama = {"model.", "model.embed_tokens.weight"};

const Kind& kind_of(const HuggingfaceConfig& config) {
  return std::holds_alternative<Gpt2Config>(config) ? kGpt2 : kLlama;
}

// GPT-2's files hold the weights of its projections as [in, out].
bool is_transposed(const Kind& kind, const std::string& name) {
  return &kind == &kGpt2 && (name.ends_with(".c_attn.weight") || name.ends_with(".c_proj.weight") ||
                             name.ends_with(".c_fc.weight"));
}

// Buffers that older versions saved although they follow from the settings.
bool is_constant(const Kind& kind, const std::string& name) {
  return &kind == &kGpt2 ? name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")
                         : name.ends_with(".rotary_emb.inv_freq");
}

// ---- loading ----------------------------------------------------------------------------------------------

struct Place {
  const io::ByteSource* source = nullptr;
  std::uint64_t data = 0;  // where the tensors' bytes begin in the file
  io::TensorRecord record;
};

struct Files {
  std::vector<std::unique_ptr<io::ByteSource>> sources;
  std::map<std::string, Place> places;  // by the parameter's name
};

void add_file(Files& files, const Kind& kind, const std::string& path) {
  const io::ByteSource& source = *files.sources.emplace_back(io::open_file(kLoad, path));
  auto [data, header] = read_safetensors_header(source);
  for (io::TensorRecord& r : header.records) {
    if (is_constant(kind, r.name)) continue;
    // A file of the bare model lacks the prefix.
    const std::string name =
        r.name == kHead || r.name.starts_with(kind.prefix) ? r.name : kind.prefix + r.name;
    source.check(files.places.emplace(name, Place{&source, data, r}).second, kLoad, "tensor ",
                 printable(r.name), " is there twice");
  }
}

Files find_files(const Kind& kind, const std::string& folder) {
  Files files;
  const std::filesystem::path at(folder);
  std::error_code ignored;  // whatever can't be looked at is not there
  if (std::filesystem::exists(at / kSingle, ignored)) {
    add_file(files, kind, at / kSingle);
    return files;
  }
  const std::string index = at / kIndex;
  CT_CHECK(std::filesystem::exists(index, ignored), IoError, kLoad, printable_path(folder), " has neither ",
           kSingle, " nor ", kIndex,
           "; other formats (pytorch_model.bin) are not read: save the model as safetensors");
  const auto map = parse_huggingface_index(index, read_text(index));
  std::map<std::string, bool> seen;
  for (const auto& [tensor, file] : map)
    if (!std::exchange(seen[file], true)) add_file(files, kind, at / file);
  std::map<std::string_view, const Place*> by_name;  // in the files, where the prefix may be missing
  for (const auto& [name, place] : files.places) by_name[place.record.name] = &place;
  for (const auto& [tensor, file] : map) {
    if (is_constant(kind, tensor)) continue;
    const auto found = by_name.find(tensor);
    CT_CHECK(found != by_name.end() && found->second->source->name() == (at / file).string(), IoError, kLoad,
             printable_path(index), ": tensor ", printable(tensor), " is not in ", printable(file),
             " as the index says; the files do not belong together");
  }
  return files;
}

// A settings file that promises more than the tensors hold must not make this program ask for memory. Checks
// what all other sizes follow from.
void check_promises(const HuggingfaceConfig& config, const Kind& kind, const std::string& folder,
                    const Files& files) {
  const auto check = [&](const std::string& name, const Shape& wanted) {
    const auto found = files.places.find(name);
    CT_CHECK(found != files.places.end(), IoError, kLoad, printable_path(folder), ": tensor ",
             printable(name), " is missing; the files are not those of the model that config.json describes");
    const Place& place = found->second;
    place.source->check(place.record.shape == wanted, kLoad, "tensor ", printable(place.record.name),
                        " has shape ", place.record.shape, "; config.json asks for ", wanted);
  };
  const auto check_layers = [&](std::int64_t layers) {
    CT_CHECK(layers <= static_cast<std::int64_t>(files.places.size()), IoError, kLoad, printable_path(folder),
             ": config.json asks for ", layers, " layers, and there are ", files.places.size(),
             " tensors; the files are not those of this model");
  };
  if (const auto* c = std::get_if<Gpt2Config>(&config)) {
    check(kind.embedding, {c->vocab_size, c->n_embd});
    check("transformer.wpe.weight", {c->n_positions, c->n_embd});
    check_layers(c->n_layer);
    check("transformer.h.0.mlp.c_fc.weight", {c->n_embd, c->n_inner == 0 ? 4 * c->n_embd : c->n_inner});
    return;
  }
  const auto& c = std::get<LlamaConfig>(config);
  check(kind.embedding, {c.vocab_size, c.hidden_size});
  check_layers(c.num_hidden_layers);
  check("model.layers.0.mlp.gate_proj.weight", {c.intermediate_size, c.hidden_size});
  const std::int64_t heads = c.num_attention_heads, shared = c.num_key_value_heads;
  // The heads share hidden_size, or the model refuses the settings.
  if (c.head_dim <= 0 || shared < 0 || (shared > 0 && heads % shared != 0)) return;
  const std::string attention = "model.layers.0.self_attn.";
  check(attention + "q_proj.weight", {heads * c.head_dim, c.hidden_size});
  if (shared > 0) check(attention + "k_proj.weight", {shared * c.head_dim, c.hidden_size});
}

DType common_dtype(const Files& files) {
  std::optional<DType> dtype;
  for (const auto& [name, place] : files.places) {
    place.source->check(is_floating(place.record.dtype), kLoad, "tensor ", printable(name), " is ",
                        place.record.dtype, "; parameters are floating");
    dtype = dtype ? promote(*dtype, place.record.dtype) : place.record.dtype;
  }
  return dtype.value_or(DType::f32);
}

void check_parameters(const StateDict& parameters, const Kind& kind, const std::string& folder,
                      const Files& files) {
  std::vector<std::string> missing, unknown;
  for (const auto& [name, p] : parameters) {
    const auto found = files.places.find(name);
    if (found == files.places.end()) {
      missing.push_back(name);
      continue;
    }
    Shape wanted = p.shape();
    if (is_transposed(kind, name)) std::swap(wanted[0], wanted[1]);
    const Place& place = found->second;
    place.source->check(place.record.shape == wanted, kLoad, "tensor ", printable(place.record.name),
                        " has shape ", place.record.shape, "; config.json asks for ", wanted);
  }
  for (const auto& [name, place] : files.places)
    if (!parameters.contains(name)) unknown.push_back(place.record.name);
  CT_CHECK(missing.empty(), IoError, kLoad, printable_path(folder),
           ": tensors are missing: ", printable_list(missing),
           "; the files are not those of the model that config.json describes");
  CT_CHECK(unknown.empty(), IoError, kLoad, printable_path(folder),
           ": tensors that the model has not: ", printable_list(unknown),
           "; the files are not those of the model that config.json describes");
}

void read_parameter(Tensor p, const Place& place, bool transposed) {
  const bool direct = !transposed && p.is_cpu() && p.dtype() == place.record.dtype && p.is_contiguous();
  Tensor t = direct ? p : Tensor::allocate(place.record.shape, place.record.dtype, cpu);
  io::read_tensor(*place.source, place.data, place.record, t.raw_data());
  if (!direct) p.copy_(transposed ? t.t() : t);
}

// ---- saving -----------------------------------------------------------------------------------------------

HuggingfaceConfig config_of(const LanguageModel& model) {
  if (const auto* gpt2 = dynamic_cast<const Gpt2*>(&model)) return gpt2->config();
  if (const auto* llama = dynamic_cast<const Llama*>(&model)) return llama->config();
  ct::detail::fail<ValueError>(kSave, "the model is neither a Gpt2 nor a Llama; ",
                               "for others there is io::save(path, model.state_dict())");
}

// Tensors as the files hold them: GPT-2's projections transposed, and biases even if the model has none.
StateDict file_tensors(const LanguageModel& model, const HuggingfaceConfig& config) {
  const Kind& kind = kind_of(config);
  const auto* gpt2 = std::get_if<Gpt2Config>(&config);
  StateDict tensors;
  for (const auto& [name, p] : model.state_dict()) {
    tensors.set(name, is_transposed(kind, name) ? p.t() : p);
    if (gpt2 && !gpt2->bias && (p.dim() == 1 || is_transposed(kind, name)))
      tensors.set(name.substr(0, name.size() - std::string_view("weight").size()) + "bias",
                  zeros({p.size(0)}, {.dtype = p.dtype(), .device = p.device()}));
  }
  return tensors;
}

}  // namespace

std::unique_ptr<LanguageModel> load_huggingface(const std::string& folder,
                                                const HuggingfaceLoadOptions& options) {
  std::error_code ignored;
  CT_CHECK(std::filesystem::is_directory(folder, ignored), IoError, kLoad, printable_path(folder),
           " is not a folder; it must be one with config.json and model.safetensors");
  const std::string config_path = std::filesystem::path(folder) / "config.json";
  HuggingfaceConfig config = parse_huggingface_config(config_path, read_text(config_path));
  const Kind& kind = kind_of(config);
  Files files = find_files(kind, folder);
  const bool tied = std::visit([](const auto& c) { return c.tie_word_embeddings; }, config);
  if (tied) {  // A shared table may be there under either name, or both.
    if (auto head = files.places.extract(kHead); !head.empty()) {
      head.key() = kind.embedding;
      files.places.insert(std::move(head));
    }
  }
  check_promises(config, kind, folder, files);
  const DType dtype = options.dtype.value_or(common_dtype(files));
  std::unique_ptr<LanguageModel> model;
  {
    const nn::init::Skip skip;
    std::visit(
        [&](auto& c) {
          c.dtype = dtype;
          c.device = options.device;
          if constexpr (std::is_same_v<std::decay_t<decltype(c)>, Gpt2Config>) {
            model = std::make_unique<Gpt2>(c);
          } else {
            model = std::make_unique<Llama>(c);
          }
        },
        config);
  }
  const NoGrad guard;
  const StateDict parameters = model->state_dict();
  check_parameters(parameters, kind, folder, files);
  for (const auto& [name, p] : parameters)
    read_parameter(p, files.places.at(name), is_transposed(kind, name));
  model->eval();
  return model;
}

void save_huggingface(const std::string& folder, const LanguageModel& model,
                      const HuggingfaceSaveOptions& options) {
  CT_CHECK(options.max_file_bytes > 0, ValueError, kSave, "max_file_bytes is ", options.max_file_bytes,
           "; it must be positive");
  const HuggingfaceConfig config = config_of(model);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  CT_CHECK(!error, IoError, kSave, "cannot make the folder ", printable_path(folder), ": ", error.message());
  const std::filesystem::path at(folder);
  const NoGrad guard;

  std::vector<StateDict> parts(1);
  std::int64_t total = 0, in_part = 0;
  for (const auto& [name, p] : file_tensors(model, config)) {
    if (in_part > 0 && in_part + p.nbytes() > options.max_file_bytes) {
      parts.emplace_back();
      in_part = 0;
    }
    in_part += p.nbytes();
    total += p.nbytes();
    parts.back().set(name, p);
  }
  const io::Metadata metadata = {{"format", "pt"}};  // transformers 4 wants it
  if (parts.size() == 1) {
    io::save(at / kSingle, parts[0], metadata);
  } else {
    std::vector<io::Json::Member> files;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      char name[64];
      std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", i + 1, parts.size());
      io::save(at / name, parts[i], metadata);
      for (const auto& [tensor, unused] : parts[i]) files.emplace_back(tensor, name);
    }
    const io::Json index = io::Json::object({{"metadata", io::Json::object({{"total_size", total}})},
                                             {"weight_map", io::Json::object(std::move(files))}});
    io::write_file(at / kIndex, index.dump(kSave, 2) + '\n');
    std::filesystem::remove(at / kSingle, error);  // readers would prefer an old one to the index
  }
  io::write_file(at / "config.json", huggingface_config_text(config, model.head()->dtype()));
}

}  // namespace ct::nn::models
