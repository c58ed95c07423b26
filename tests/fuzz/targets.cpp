#include "tests/fuzz/targets.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <unistd.h>

#include <cotangent/core/allocator.h>
#include <cotangent/nn/data/idx_internal.h>
#include <cotangent/nn/data/tokens_internal.h>
#include <cotangent/nn/io/huggingface_internal.h>
#include <cotangent/nn/io/npy_internal.h>
#include <cotangent/nn/io/safetensors_internal.h>
#include <cotangent/nn/text/bpe.h>

#include "tests/nn_testing.h"

namespace ct::fuzz {
namespace {

using testing::tensor_of;

// Deflate can make data 1032 times smaller: what a reader may ask for is bounded by its input.
constexpr std::size_t kMaxRatio = 1100;
constexpr std::size_t kSlack = std::size_t{1} << 20;

template <class Read>
bool guarded(std::span<const std::byte> input, Read&& read) {
  reset_peak_stats(cpu);
  const std::size_t before = memory_stats(cpu).in_use;
  const auto source = io::open_memory(input, "input");
  bool accepted = true;
  try {
    read(*source);
  } catch (const Error&) { accepted = false; }
  const std::size_t peak = memory_stats(cpu).peak_in_use;
  if (peak > before + input.size() * kMaxRatio + kSlack) {
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

std::vector<std::string> safetensors_seeds() {
  StateDict dict{{"a.weight", tensor_of<float>({2, 2}, {1, 2, 3, 4})},
                 {"b", tensor_of<std::int64_t>({}, {7})},
                 {"c", tensor_of<std::uint8_t>({0, 3}, {})}};
  dict.set_value("steps", 7);
  dict.set_value("lr", 1e-3);
  return {written([&](const std::string& path) {
            io::save(path, dict, {{"format", "pt"}});
          }),
          written([&](const std::string& path) { io::save(path, StateDict{}); })};
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
      R"({"model": {"type": "Characters", "vocab": ["\n", "a", "\u00e9"]}})"};
}

std::vector<std::string> huggingface_seeds() {
  nn::models::LlamaConfig llama;
  llama.rope_scaling = nn::models::RopeScaling{};
  llama.eos_token_ids = {1, 2};
  return {io::huggingface_config_text(nn::models::Gpt2Config{}, f32),
          io::huggingface_config_text(llama, bf16),
          R"({"metadata": {"total_size": 8}, "weight_map": {"a": "model-00001-of-00002.safetensors"}})"};
}

// Both files of settings; one of the two readers refuses.
void read_huggingface(const std::string& json) {
  try {
    (void)io::parse_huggingface_config("input", json);
  } catch (const IoError&) { (void)io::parse_huggingface_index("input", json); }
}

// Reads a tokenizer, and lets it work if it was accepted. A text without tokens is an answer too.
void read_tokenizer(const std::string& json) {
  constexpr char text[] = "abab's A\u00e9\n 12 <e> \xff";
  if (json.find("Characters") != std::string::npos) {
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
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

}  // namespace ct::fuzz
