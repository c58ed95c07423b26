#include <cotangent/cotangent.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using namespace ct::nn::models;
using ct::testing::bytes_of;
using ct::testing::TempFolder;

namespace {

std::string golden(const std::string& name) { return COTANGENT_SOURCE_DIR "/tests/golden/" + name; }

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void check_same(const StateDict& a, const StateDict& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, t] : a) {
    INFO(name);
    CHECK(t.dtype() == b[name].dtype());
    CHECK(t.shape() == b[name].shape());
    CHECK(bytes_of(t.contiguous()) == bytes_of(b[name].contiguous()));
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string message_of(const std::string& folder) {
  try {
    nn::models::load_huggingface(folder);
  } catch (const IoError& e) { return e.what(); }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("a model comes back bit for bit", "[io]") {
  for (const char* name : {"gpt2", "llama"}) {
    const TempFolder folder;
    const auto model = nn::models::load_huggingface(golden(name));
    CHECK_FALSE(model->is_training());
    nn::models::save_huggingface(folder / "new", *model);
    // The same tensors as in the original file, in its layout (GPT-2's are transposed there).
    check_same(io::load(folder / "new/model.safetensors"), io::load(golden(name) + "/model.safetensors"));
    CHECK(io::load_file(folder / "new/model.safetensors").metadata == io::Metadata{{"format", "pt"}});
    check_same(nn::models::load_huggingface(folder / "new")->state_dict(), model->state_dict());
    // In several files.
    nn::models::save_huggingface(folder / "new", *model, {.max_file_bytes = 9000});
    CHECK_FALSE(std::filesystem::exists(folder / "new/model.safetensors"));
    CHECK(std::filesystem::exists(folder / "new/model.safetensors.index.json"));
    check_same(nn::models::load_huggingface(folder / "new")->state_dict(), model->state_dict());
    // bf16 is rounded once, and then stays as it is.
    const auto half = nn::models::load_huggingface(golden(name), {.dtype = bf16});
    CHECK(half->head()->dtype() == bf16);
    nn::models::save_huggingface(folder / "half", *half);
    check_same(nn::models::load_huggingface(folder / "half")->state_dict(), half->state_dict());
  }
}

TEST_CASE("settings are read and written", "[io]") {
  const TempFolder folder;
  manual_seed(1);
  LlamaConfig l{.vocab_size = 11,
                .hidden_size = 8,
                .intermediate_size = 6,
                .num_hidden_layers = 1,
                .num_attention_heads = 2,
                .num_key_value_heads = 1,
                .head_dim = 6,
                .max_position_embeddings = 77,
                .rope_theta = 5e5,
                .rope_scaling = RopeScaling{2, 1, 4, 32},
                .rms_norm_eps = 3e-5,
                .attention_dropout = 0.25,
                .attention_bias = true,
                .mlp_bias = true,
                .tie_word_embeddings = true,
                .bos_token_id = 3,
                .eos_token_ids = {4, 5}};
  nn::models::save_huggingface(folder / "l", Llama(l));
  const auto llama = nn::models::load_huggingface(folder / "l");
  const LlamaConfig& m = dynamic_cast<const Llama&>(*llama).config();
  CHECK(m.head_dim == 6);
  CHECK(m.max_position_embeddings == 77);
  CHECK(m.rope_theta == 5e5);
  CHECK(m.rope_scaling->original_max_position_embeddings == 32);
  CHECK(m.rms_norm_eps == 3e-5);
  CHECK(m.attention_dropout == 0.25);
  CHECK(m.attention_bias);
  CHECK(m.mlp_bias);
  CHECK(m.tie_word_embeddings);
  CHECK(m.bos_token_id == 3);
  CHECK(llama->begin_token() == 3);
  CHECK(llama->end_tokens() == std::vector<std::int64_t>{4, 5});
  // The form that transformers 4 wrote.
  std::string text = folder.read("l/config.json");
  text = replaced(text, "\"rope_parameters\"", "\"unknown\"");
  folder.write("l/config.json", text);
  const auto older = nn::models::load_huggingface(folder / "l");
  CHECK(dynamic_cast<const Llama&>(*older).config().rope_scaling->factor == 2);
  CHECK(dynamic_cast<const Llama&>(*older).config().rope_theta == 5e5);

  Gpt2Config g{.vocab_size = 11, .n_positions = 9, .n_embd = 6, .n_layer = 1, .n_head = 2, .n_inner = 5};
  g.activation = Gelu::exact;
  g.tie_word_embeddings = false;
  g.attn_pdrop = 0.5;
  nn::models::save_huggingface(folder / "g", Gpt2(g));
  const auto gpt2 = nn::models::load_huggingface(folder / "g");
  const Gpt2Config& h = dynamic_cast<const Gpt2&>(*gpt2).config();
  CHECK(h.n_inner == 5);
  CHECK(h.activation == Gelu::exact);
  CHECK(h.attn_pdrop == 0.5);
  CHECK_FALSE(h.tie_word_embeddings);
  CHECK_FALSE(h.bos_token_id.has_value());
  // A model without biases equals one with biases of 0.
  g.bias = false;
  Gpt2 bare(g);
  nn::models::save_huggingface(folder / "n", bare);
  const auto full = nn::models::load_huggingface(folder / "n");
  CHECK(full->num_parameters() == bare.num_parameters() + 3 * 6 + 18 + 6 + 5 + 6);
  const Tensor tokens = ct::tensor({{1, 2, 3}}, {.dtype = i64});
  bare.eval();
  CHECK(amax(ct::abs(full->forward(tokens) - bare.forward(tokens))).item() < 1e-6);
}

TEST_CASE("checkpoints of older versions are understood", "[io]") {
  const TempFolder folder;
  const auto model = nn::models::load_huggingface(golden("gpt2"));
  // Without the prefix, and with the causal mask as a buffer.
  StateDict bare;
  for (const auto& [name, t] : io::load(golden("gpt2") + "/model.safetensors"))
    bare.set(name.substr(std::string("transformer.").size()), t);
  bare.set("h.0.attn.bias", ones({1, 1, 19, 19}));
  bare.set("h.0.attn.masked_bias", scalar(-1e4));
  io::save(folder / "model.safetensors", bare);
  folder.write("config.json", file_text(golden("gpt2") + "/config.json"));
  check_same(nn::models::load_huggingface(folder.path())->state_dict(), model->state_dict());
  // A tied table under the name of the head.
  StateDict named;
  for (const auto& [name, t] : io::load(golden("gpt2") + "/model.safetensors"))
    named.set(name == "transformer.wte.weight" ? "lm_head.weight" : name, t);
  io::save(folder / "model.safetensors", named);
  check_same(nn::models::load_huggingface(folder.path())->state_dict(), model->state_dict());
}

TEST_CASE("what is wrong with a checkpoint is said with the file and the place", "[io]") {
  const TempFolder folder;
  const std::string config = file_text(golden("llama") + "/config.json");
  const std::string bytes = file_text(golden("llama") + "/model.safetensors");
  const auto with_config = [&](const std::string& text) {
    folder.write("config.json", text);
    folder.write("model.safetensors", bytes);
    return message_of(folder.path());
  };
  CHECK(with_config(config) == "nothing was thrown");
  const auto changed = [&](const char* from, const char* to) {
    return with_config(replaced(config, from, to));
  };
  using Catch::Contains;
  CHECK_THAT(message_of(folder / "none"), Contains("is not a folder"));
  CHECK_THAT(with_config(config.substr(0, 200)),
             Contains("config.json': the text is not valid JSON near byte 201"));
  CHECK_THAT(with_config(std::string(100000, '[')), Contains("nested"));
  CHECK_THAT(changed("\"llama\"", "\"mamba\""),
             Contains("'model_type' is 'mamba'; this library reads 'gpt2' and 'llama'"));
  CHECK_THAT(changed("\"silu\"", "\"relu\""), Contains("'hidden_act' is 'relu'"));
  CHECK_THAT(changed("\"llama3\"", "\"yarn\""), Contains("'rope_parameters' has the type 'yarn'"));
  CHECK_THAT(changed("\"hidden_size\": 24", "\"hidden_size\": 24.5"), Contains("'hidden_size' is 24.5"));
  CHECK_THAT(changed("\"hidden_size\": 24", "\"hidden_size\": 99999999999999999999"),
             Contains("must be an integer"));
  CHECK_THAT(changed("\"hidden_size\"", "\"hidden_sizes\""), Contains("has no 'hidden_size'"));
  CHECK_THAT(
      changed("\"vocab_size\": 59", "\"vocab_size\": 60"),
      Contains("tensor 'model.embed_tokens.weight' has shape [59, 24]; config.json asks for [60, 24]"));
  CHECK_THAT(changed("\"intermediate_size\": 42", "\"intermediate_size\": 44"),
             Contains("mlp.gate_proj.weight' has shape [42, 24]; config.json asks for [44, 24]"));
  // No memory is asked for before the files are known to hold as much.
  CHECK_THAT(changed("\"intermediate_size\": 42", "\"intermediate_size\": 2000000000"),
             Contains("config.json asks for [2000000000, 24]"));
  CHECK_THAT(changed("\"head_dim\": 6", "\"head_dim\": 2000000000"),
             Contains("q_proj.weight' has shape [24, 24]; config.json asks for [8000000000, 24]"));
  CHECK_THAT(changed("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4"),
             Contains("k_proj.weight' has shape [12, 24]; config.json asks for [24, 24]"));
  CHECK_THAT(changed("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"),
             Contains("tensors are missing: 'model.layers.2.self_attn.q_proj.weight', "));
  CHECK_THAT(changed("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1"),
             Contains("tensors that the model has not: 'model.layers.1."));
  CHECK_THAT(changed("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 2000000000"),
             Contains("config.json asks for 2000000000 layers"));
  CHECK_THAT(changed("\"num_hidden_layers\": 2", "\"num_hidden_layers\": -2"), Contains("must be positive"));
  CHECK_THAT(changed("\"attention_bias\": false", "\"attention_bias\": 0"),
             Contains("must be true or false"));
  folder.write("config.json", replaced(config, "\"num_attention_heads\": 4", "\"num_attention_heads\": 3"));
  CHECK_THROWS_AS(nn::models::load_huggingface(folder.path()), ShapeError);

  folder.write("config.json", config);
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{300}, bytes.size() - 1}) {
    folder.write("model.safetensors", bytes.substr(0, size));
    CHECK_THAT(message_of(folder.path()), Contains("model.safetensors"));
  }
  std::filesystem::remove(folder / "model.safetensors");
  CHECK_THAT(message_of(folder.path()), Contains("has neither model.safetensors nor"));

  const std::string gpt2 = file_text(golden("gpt2") + "/config.json");
  const auto changed_gpt2 = [&](const char* from, const char* to) {
    folder.write("config.json", replaced(gpt2, from, to));
    folder.write("model.safetensors", file_text(golden("gpt2") + "/model.safetensors"));
    return message_of(folder.path());
  };
  CHECK_THAT(changed_gpt2("\"n_positions\": 19", "\"n_positions\": 2000000000"),
             Contains("wpe.weight' has shape [19, 20]; config.json asks for [2000000000, 20]"));
  CHECK_THAT(changed_gpt2("\"n_inner\": 44", "\"n_inner\": 2000000000"),
             Contains("c_fc.weight' has shape [20, 44]; config.json asks for [20, 2000000000]"));
  folder.write("config.json", config);
  std::filesystem::remove(folder / "model.safetensors");

  // Several files.
  nn::models::save_huggingface(folder.path(), *nn::models::load_huggingface(golden("llama")),
                               {.max_file_bytes = 20000});
  const std::string index = folder.read("model.safetensors.index.json");
  CHECK(message_of(folder.path()) == "nothing was thrown");
  folder.write("model.safetensors.index.json", "{}");
  CHECK_THAT(message_of(folder.path()), Contains("has no object 'weight_map'"));
  folder.write("model.safetensors.index.json", replaced(index, "\"model-00001", "\"../model-00001"));
  CHECK_THAT(message_of(folder.path()), Contains("files lie in the folder of the index"));
  folder.write("model.safetensors.index.json", replaced(index, "model-00001", "model-00002"));
  CHECK_THAT(message_of(folder.path()), Contains("as the index says"));
  folder.write("model.safetensors.index.json", index);
  std::filesystem::remove(folder / "model-00001-of-00003.safetensors");
  CHECK_THAT(message_of(folder.path()), Contains("model-00001-of-00003.safetensors"));
}

// The counterpart of tests/peers/transformers_peer.py, which says what it does.
TEST_CASE("models of another program, for tests/peers/transformers_peer.py", "[interchange]") {
  const char* root = std::getenv("COTANGENT_INTERCHANGE");
  if (!root) return;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    const std::string folder = entry.path();
    const auto model = nn::models::load_huggingface(folder);
    const NoGrad guard;
    const Tensor logits = model->forward(io::load_npy(folder + "/tokens.npy"));
    io::save_npy(folder + "/logits.npy", logits.to(f32));
    const std::int64_t limit = std::filesystem::exists(folder + "/sharded") ? 30000 : std::int64_t{5} << 30;
    nn::models::save_huggingface(folder + "/saved", *model, {.max_file_bytes = limit});
  }
}
