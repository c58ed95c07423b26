#include "tests/fuzz/targets.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <unistd.h>

#include <cotangent/core/base/rng.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/nn/data/cifar_internal.h>
#include <cotangent/nn/data/csv.h>
#include <cotangent/nn/data/idx_internal.h>
#include <cotangent/nn/data/tokens_internal.h>
#include <cotangent/nn/io/checkpoint.h>
#include <cotangent/nn/io/npy_internal.h>
#include <cotangent/nn/io/safetensors_internal.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/models/gpt2.h>
#include <cotangent/nn/models/huggingface.h>
#include <cotangent/nn/models/huggingface_internal.h>
#include <cotangent/nn/models/llama.h>
#include <cotangent/nn/optim/optim.h>
#include <cotangent/nn/text/bpe.h>
#include <cotangent/nn/text/bpe_internal.h>
#include <cotangent/nn/text/unicode_internal.h>
#include <cotangent/ops/creation/creation.h>

#include "tests/fuzz/picture_target.h"
#include "tests/fuzz/text_targets.h"
#include "tests/nn_testing.h"

namespace ct::fuzz {
namespace {

using testing::tensor_of;

// Deflate can make data 1032 times smaller: what a reader may ask for is bounded by its input.
constexpr std::size_t kMaxRatio = 1100;
constexpr std::size_t kSlack = std::size_t{1} << 20;

template <class Read>
bool guarded(std::span<const std::byte> input, Read&& read, std::size_t ratio = kMaxRatio) {
  reset_peak_stats(cpu);
  const std::size_t before = memory_stats(cpu).in_use;
  const auto source = io::open_memory(input, "input");
  bool accepted = true;
  try {
    read(*source);
  } catch (const Error&) { accepted = false; }
  const std::size_t peak = memory_stats(cpu).peak_in_use;
  if (peak > before + input.size() * ratio + kSlack) {
    std::fprintf(stderr, "%zu bytes of input made the parser ask for %zu bytes\n", input.size(),
                 peak - before);
    std::abort();
  }
  return accepted;
}

// Reads every byte of a result, so that a sanitizer sees what was not written.
void touch(const Tensor& t) {
  static unsigned sum = 0;
  const std::string bytes = testing::bytes_of(
      Tensor::from_storage(t.impl()->storage, t.shape(), contiguous_strides(t.shape()), 0, t.dtype()));
  for (const char c : bytes) sum += static_cast<unsigned char>(c);
  asm volatile("" : : "m"(sum));  // the sum counts as used
}
void touch(const StateDict& dict) {
  for (const auto& [name, tensor] : dict) touch(tensor);
}

// The bytes that a writer makes.
template <class Write>
std::string written(Write&& write) {
  const testing::TempFolder folder;
  write(folder / "seed");
  return folder.read("seed");
}

// A safetensors file without its checksums, as others write them: one byte changed would be all that there is to
// find in one with them.
std::string without_checksums(std::string file) {
  const std::string first = std::string("\"") + io::kHeaderSum, last = std::string("\"") + io::kTensorSums;
  const std::size_t begin = file.find(first);
  std::size_t end = file.find('"', file.find(last) + last.size() + 3) + 1;
  if (file[end] == ',') ++end;
  return file.replace(begin, end - begin, end - begin, ' ');
}

std::vector<std::string> safetensors_seeds() {
  StateDict dict{{"a.weight", tensor_of<float>({2, 2}, {1, 2, 3, 4})},
                 {"b", tensor_of<std::int64_t>({}, {7})},
                 {"c", tensor_of<std::uint8_t>({0, 3}, {})}};
  dict.set_value("steps", 7);
  dict.set_value("lr", 1e-3);
  const std::string full = written([&](const std::string& path) {
    io::save(path, dict, {{"format", "pt"}});
  });
  return {without_checksums(full), full,
          without_checksums(written([&](const std::string& path) { io::save(path, StateDict{}); }))};
}

std::vector<std::string> npy_seeds() {
  return {written([](const std::string& path) {
            io::save_npy(path, tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
          }),
          written([](const std::string& path) { io::save_npy(path, tensor_of<std::int64_t>({}, {1})); })};
}

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

// A zip archive with one stored member.
std::vector<std::string> npz_seeds() {
  const std::string array = npy_seeds()[0], name = "x.npy";
  const std::uint32_t crc = io::crc32_continue(0, array.data(), array.size());
  std::string zip;
  const auto common = [&] {
    put(zip, 20, 2), put(zip, 0, 2), put(zip, 0, 2), put(zip, 0, 4);  // version, flags, method, time
    put(zip, crc, 4), put(zip, array.size(), 4), put(zip, array.size(), 4), put(zip, name.size(), 2),
        put(zip, 0, 2);
  };
  put(zip, 0x04034b50, 4), common();
  zip += name + array;
  const std::size_t directory = zip.size();
  put(zip, 0x02014b50, 4), put(zip, 20, 2), common();
  put(zip, 0, 2), put(zip, 0, 2), put(zip, 0, 2), put(zip, 0, 4), put(zip, 0, 4);
  zip += name;
  const std::size_t end = zip.size();
  put(zip, 0x06054b50, 4), put(zip, 0, 4), put(zip, 1, 2), put(zip, 1, 2), put(zip, end - directory, 4);
  put(zip, directory, 4), put(zip, 0, 2);
  return {zip};
}

std::vector<std::string> idx_seeds() {
  const std::string plain(
      "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
      "abcdef",
      18);
  const std::string wide("\0\0\x0d\x01\0\0\0\x01\x3f\x80\0\0", 12);
  // gzip of `wide`, stored
  std::string packed("\x1f\x8b\x08\0\0\0\0\0\0\xff\x01", 11);
  put(packed, wide.size(), 2), put(packed, ~wide.size(), 2);
  packed += wide;
  put(packed, io::crc32_continue(0, wide.data(), wide.size()), 4), put(packed, wide.size(), 4);
  return {plain, wide, packed};
}

std::vector<std::string> cifar_seeds() {
  std::string record(3073, 'x');
  record[0] = '\7';
  return {record, record + record};
}

std::vector<std::string> csv_seeds() {
  return {"x,\"y \"\"z\"\"\",kind\r\n1.5,-2e3,dog\n\n,\"4\",\"a,\nb\"\n", "1\n2\n"};
}
void read_csv(std::span<const std::byte> input) {
  const data::CsvTable table = data::parse_csv({reinterpret_cast<const char*>(input.data()), input.size()});
  for (const std::string& column : table.columns()) {
    touch(table.classes(column).first);
    try {
      touch(table.numbers({column}));
    } catch (const IoError&) {}
  }
}

std::vector<std::string> token_seeds() {
  const std::vector<std::int64_t> tokens = {1, 2, 3, 500};
  std::vector<std::string> files;
  for (const auto format : {data::TokenFormat::raw, data::TokenFormat::llmc, data::TokenFormat::llmc32})
    files.push_back(written([&](const std::string& path) { data::save_tokens(path, tokens, format); }));
  return files;
}

std::vector<std::string> tokenizer_seeds() {
  return {
      R"({"added_tokens": [{"id": 5, "content": "<e>", "special": true, "lstrip": true}], "normalizer": null,
"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex":
"(?i:'s|'t)|[^\\r\\n\\p{L}]?\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": false},
{"type": "ByteLevel", "add_prefix_space": true, "use_regex": false}]}, "post_processor": {"type":
"TemplateProcessing", "single": [{"SpecialToken": {"id": "<e>"}}, {"Sequence": {"id": "A"}}], "special_tokens":
{"<e>": {"ids": [5]}}}, "model": {"type": "BPE", "unk_token": "a", "fuse_unk": true, "ignore_merges": true,
"vocab": {"a": 0, "b": 1, "\u0120": 2, "ab": 3, "abab": 4}, "merges": ["a b", ["ab", "ab"]]}})",
      R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "_"}, {"type":
"Replace", "pattern": {"String": " "}, "content": "_"}]}, "pre_tokenizer": {"type": "Metaspace", "replacement":
"\u2581", "prepend_scheme": "first"}, "model": {"byte_fallback": true, "vocab": {"<0x41>": 0, "\u2581": 1, "a": 2,
"\u2581a": 3}, "merges": ["\u2581 a"], "unk_token": "a"}})",
      R"({"model": {"type": "Characters", "vocab": ["\n", "a", "\u00e9"]}})",
      R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[\\s\\S]"}}, "model": {"type": "WordLevel", "vocab":
{"\n": 0, "a": 1}}})"};
}

std::vector<std::string> huggingface_seeds() {
  nn::models::LlamaConfig llama;
  llama.rope_scaling = nn::models::RopeScaling{};
  llama.eos_token_ids = {1, 2};
  return {nn::models::huggingface_config_text(nn::models::Gpt2Config{}, f32),
          nn::models::huggingface_config_text(llama, bf16),
          R"({"metadata": {"total_size": 8}, "weight_map": {"a": "model-00001-of-00002.safetensors"}})"};
}

// Both files of settings; one of the two readers refuses.
void read_huggingface(const std::string& json) {
  try {
    (void)nn::models::parse_huggingface_config("input", json);
  } catch (const IoError&) { (void)nn::models::parse_huggingface_index("input", json); }
}

// Reads a tokenizer, and lets it work if it was accepted. A text without tokens is an answer too.
void read_tokenizer(const std::string& json) {
  constexpr char text[] = "abab's A\u00e9\n 12 <e> \xff";
  if (json.find("Characters") != std::string::npos || json.find("WordLevel") != std::string::npos) {
    const auto t = text::CharTokenizer::from_json(json);
    try {
      (void)t.decode(t.encode(text));
    } catch (const ValueError&) {}
    return;
  }
  const auto t = text::BpeTokenizer::from_json(json);
  try {
    (void)t.decode(t.encode(text, {.add_special = true}));
  } catch (const ValueError&) {}
}

// Several files in one input, with a line between them that none of them has.
constexpr std::string_view kNextFile = "\n\x1e\n";
std::vector<std::string> files_in(std::span<const std::byte> input) {
  std::vector<std::string> files;
  std::string_view rest(reinterpret_cast<const char*>(input.data()), input.size());
  for (std::size_t at; (at = rest.find(kNextFile)) != rest.npos; rest.remove_prefix(at + kNextFile.size()))
    files.emplace_back(rest.substr(0, at));
  files.emplace_back(rest);
  return files;
}
std::string joined(std::initializer_list<std::string> files) {
  std::string all;
  for (const std::string& file : files) all.append(all.empty() ? "" : kNextFile).append(file);
  return all;
}

// vocab.json and merges.txt.
std::vector<std::string> merges_seeds() {
  return {joined({R"({"a": 0, "b": 1, "\u0120": 2, "ab": 3, "abab": 4, "<|endoftext|>": 5})",
                  "#version: 0.2\na b\nab ab\n"}),
          joined({R"({"a": 0, "'": 1, "'a": 2})", "' a"})};
}
void read_merges(std::span<const std::byte> input) {
  const std::vector<std::string> files = files_in(input);
  const auto t = text::BpeTokenizer::from_vocab_and_merges(files[0], files.size() > 1 ? files[1] : "");
  try {
    (void)t.decode(t.encode("abab's a 12 <|endoftext|>"));
  } catch (const ValueError&) {}
}

// Any bytes come back from a tokenizer that has a token for each.
std::vector<std::string> text_seeds() {
  return {
      "it's 1234 o'clock,\r\n  WE'LL see <|x|>!\t\xc2\xa0 \xe6\x9d\xb1\xe4\xba\xac e\xcc\x81 "
      "\xf0\x9f\x98\x80",
      std::string("\0\xff\xed\xa0\x80 \xc3  \n\n a", 14)};
}
std::vector<text::BpeTokenizer> make_tokenizers() {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    text::detail::append_utf8(token, text::detail::stand_in_of(static_cast<unsigned char>(byte)));
    if (token == "\"" || token == "\\") token.insert(0, 1, '\\');
    vocab += (byte ? ", \"" : "\"") + token + "\": " + std::to_string(byte);
  }
  std::vector<text::BpeTokenizer> all;
  for (const char* cut : {R"({"type": "ByteLevel", "add_prefix_space": false})",
                          R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex":
"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
"behavior": "Isolated"}, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})"})
    all.push_back(text::BpeTokenizer::from_json(
        R"({"added_tokens": [{"id": 259, "content": "<|x|>", "special": true}], "pre_tokenizer": )" +
        std::string(cut) + R"(, "model": {"type": "BPE", "vocab": {)" + vocab +
        R"(, "it": 256, "\u0120\u0120": 257, "\u00e6\u013f": 258}, "merges": ["i t", "\u0120 \u0120", "\u00e6 \u013f"]}})"));
  return all;
}
bool encode_text(std::span<const std::byte> input) {
  static const std::vector<text::BpeTokenizer> tokenizers = make_tokenizers();
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  for (const text::BpeTokenizer& t : tokenizers)
    if (t.decode(t.encode(text)) != text) std::abort();
  return true;
}

// A model's folder: config.json, the index, and the tensors in one file.
constexpr const char* kFiles[] = {"config.json", "model.safetensors.index.json",
                                  "model-00001-of-00001.safetensors"};
std::vector<std::string> model_seeds() {
  std::vector<std::string> all;
  const auto add = [&](const nn::models::LanguageModel& model) {
    const testing::TempFolder folder;
    nn::models::save_huggingface(folder / "m", model);
    std::string index = R"({"metadata": {}, "weight_map": {)";
    for (const auto& [name, t] : io::load(folder / "m/model.safetensors"))
      index += (index.ends_with('{') ? "\"" : ",\"") + name + "\":\"" + kFiles[2] + '"';
    all.push_back(joined(
        {folder.read("m/config.json"), index + "}}", without_checksums(folder.read("m/model.safetensors"))}));
  };
  add(nn::models::Gpt2({.vocab_size = 5, .n_positions = 4, .n_embd = 4, .n_layer = 1, .n_head = 2}));
  add(nn::models::Llama({.vocab_size = 5,
                         .hidden_size = 4,
                         .intermediate_size = 3,
                         .num_hidden_layers = 1,
                         .num_attention_heads = 2,
                         .num_key_value_heads = 1,
                         .max_position_embeddings = 4}));
  return all;
}
void read_model(std::span<const std::byte> input) {
  static const testing::TempFolder folder;
  const std::vector<std::string> files = files_in(input);
  for (std::size_t i = 0; i < std::size(kFiles); ++i)
    folder.write(kFiles[i], i < files.size() ? files[i] : "");
  touch(nn::models::load_huggingface(folder.path())->state_dict());
}

// A checkpoint of a model, its optimizer and its scheduler: what is refused has changed nothing.
struct Run {
  nn::Linear model{2, 3};
  optim::AdamW adamw{model.parameters(), {}};
  optim::StepLR schedule{adamw, {5}};

  Run() {
    for (Tensor& p : model.parameters()) p.set_grad(ones(p.shape()));
    adamw.step();
    schedule.step();
  }
  void save(const std::string& path) {
    io::save_checkpoint(path, {{"model", model}, {"adamw", adamw}, {"schedule", schedule}});
  }
  void load(const std::string& path) {
    io::load_checkpoint(path, {{"model", model}, {"adamw", adamw}, {"schedule", schedule}});
  }
  std::string state() const {
    const GeneratorState draws = default_generator().state();
    std::string all = std::to_string(draws.seed) + '/' + std::to_string(draws.offset);
    const auto add = [&](const auto& value) {
      if constexpr (std::is_same_v<decltype(value), const std::string&>)
        all += value;
      else
        all.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    for (const StateDict& part : {model.state_dict(), adamw.state_dict(), schedule.state_dict()}) {
      for (const auto& [name, t] : part) all += name + testing::bytes_of(t);
      for (const auto& [name, value] : part.values()) add(name), std::visit(add, value);
    }
    return all;
  }
};
std::vector<std::string> checkpoint_seeds() {
  const std::string full = written([](const std::string& path) { Run().save(path); });
  return {without_checksums(full), full};
}
void read_checkpoint(std::span<const std::byte> input) {
  static const testing::TempFolder folder;
  static Run run;
  static const std::string before = (run.save(folder / "first"), run.state());
  folder.write("input", {reinterpret_cast<const char*>(input.data()), input.size()});
  try {
    run.load(folder / "input");
  } catch (const Error&) {
    if (run.state() != before) std::abort();
    throw;
  }
  run.load(folder / "first");
}

constexpr Target kTargets[] = {
    {"safetensors",
     [](std::span<const std::byte> input) {
       return guarded(input, [](const io::ByteSource& s) { touch(io::load_safetensors(s).tensors); });
     },
     safetensors_seeds},
    {"npy",
     [](std::span<const std::byte> input) {
       return guarded(input, [](const io::ByteSource& s) { touch(io::load_npy(s)); });
     },
     npy_seeds},
    {"npz",
     [](std::span<const std::byte> input) {
       return guarded(input, [](const io::ByteSource& s) { touch(io::load_npz(s)); });
     },
     npz_seeds},
    {"idx",
     [](std::span<const std::byte> input) {
       return guarded(input, [](const io::ByteSource& s) { touch(data::read_idx(s)); });
     },
     idx_seeds},
    {"cifar10",
     [](std::span<const std::byte> input) {
       return guarded(input, [](const io::ByteSource& s) {
         const data::ImageDataset images = data::read_cifar10(s);
         touch(images.images());
         touch(images.labels());
       });
     },
     cifar_seeds},
    {"csv",
     [](std::span<const std::byte> input) {
       return guarded(input, [&](const io::ByteSource&) { read_csv(input); });
     },
     csv_seeds},
    {"picture",
     [](std::span<const std::byte> input) {
       return guarded(
           input, [&](const io::ByteSource&) { read_picture(input); }, kPictureRatio);
     },
     picture_seeds, 4},
    {"tokens",
     [](std::span<const std::byte> input) {
       return guarded(input, [&](const io::ByteSource& s) {
         // The bytes outlive the tokens, and the source is a copy that they own.
         std::vector<std::int64_t> all;
         const data::Tokens tokens = data::open_tokens(io::open_memory(input, s.name()));
         all.resize(static_cast<std::size_t>(tokens.size()));
         tokens.read(0, all);
       });
     },
     token_seeds},
    {"tokenizer",
     [](std::span<const std::byte> input) {
       return guarded(input, [&](const io::ByteSource&) {
         read_tokenizer({reinterpret_cast<const char*>(input.data()), input.size()});
       });
     },
     tokenizer_seeds},
    {"huggingface",
     [](std::span<const std::byte> input) {
       return guarded(input, [&](const io::ByteSource&) {
         read_huggingface({reinterpret_cast<const char*>(input.data()), input.size()});
       });
     },
     huggingface_seeds},
    {"merges",
     [](std::span<const std::byte> input) {
       return guarded(input, [&](const io::ByteSource&) { read_merges(input); });
     },
     merges_seeds},
    {"text", encode_text, text_seeds},
    {"pattern", match_pattern, pattern_seeds, 4},
    {"normalizers", run_normalizers, normalizer_seeds, 4},
    {"model",
     [](std::span<const std::byte> input) {
       return guarded(input, [&](const io::ByteSource&) { read_model(input); });
     },
     model_seeds, 10},
    {"checkpoint",
     [](std::span<const std::byte> input) {
       return guarded(input, [&](const io::ByteSource&) { read_checkpoint(input); });
     },
     checkpoint_seeds, 10},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

}  // namespace ct::fuzz
