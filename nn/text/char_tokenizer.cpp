#include <algorithm>
#include <filesystem>
#include <set>

#include <cotangent/core/error.h>
#include <cotangent/nn/io/atomic_file.h>
#include <cotangent/nn/io/json_internal.h>
#include <cotangent/nn/text/bpe.h>
#include <cotangent/nn/text/text_file_internal.h>
#include <cotangent/nn/text/tokenizer.h>
#include <cotangent/nn/text/unicode_internal.h>

namespace ct::text {
namespace {

constexpr char kOp[] = "CharTokenizer";
constexpr char kAnyCharacter[] = R"([\s\S])";

// What save() writes, or wrote in older versions: {"type": "Characters", "vocab": ["a", ...]}.
bool is_character_model(const nlohmann::json& file) {
  const auto is = [](const nlohmann::json& object, const char* key, const char* text) {
    // Not by ==, which makes a JSON value of the text and ends the process where there is no memory for it.
    const std::string* found = nullptr;
    if (object.is_object() && object.contains(key)) found = object[key].get_ptr<const std::string*>();
    return found && *found == text;
  };
  if (!file.is_object() || !file.contains("model")) return false;
  if (is(file["model"], "type", "Characters")) return true;
  if (!is(file["model"], "type", "WordLevel") || !file.contains("pre_tokenizer")) return false;
  const nlohmann::json& cut = file["pre_tokenizer"];
  return is(cut, "type", "Split") && cut.contains("pattern") && cut["pattern"].size() == 1 &&
         is(cut["pattern"], "Regex", kAnyCharacter);
}

}  // namespace

std::string Tokenizer::decode(std::span<const std::int64_t> ids) const {
  std::string text;
  for (const std::int64_t id : ids) text += token_bytes(id);
  return text;
}

CharTokenizer::CharTokenizer(std::vector<char32_t> characters)
    : characters_(std::move(characters)), latin_(256, -1) {
  for (std::size_t i = 0; i < characters_.size() && characters_[i] < 256; ++i)
    latin_[characters_[i]] = static_cast<std::int32_t>(i);
}

CharTokenizer CharTokenizer::from_text(std::string_view text) {
  std::vector<bool> seen(detail::kLastCodePoint + 1);
  for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
    const char32_t c = detail::decode_utf8(text, at, length);
    CT_CHECK(c < detail::kBadByte, ValueError, kOp, "byte ", at, " of the text, ", detail::show(c),
             ", is not UTF-8; convert the text first (iconv -t UTF-8), or leave such bytes out");
    seen[c] = true;
  }
  std::vector<char32_t> characters;
  for (char32_t c = 0; c < seen.size(); ++c)
    if (seen[c]) characters.push_back(c);
  return CharTokenizer(std::move(characters));
}

std::vector<std::int64_t> CharTokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> ids;
  ids.reserve(text.size());
  for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
    const char32_t c = detail::decode_utf8(text, at, length);
    std::int64_t id = -1;
    if (c < 256) {
      id = latin_[c];
    } else if (const auto found = std::lower_bound(characters_.begin(), characters_.end(), c);
               found != characters_.end() && *found == c) {
      id = found - characters_.begin();
    }
    CT_CHECK(id >= 0, ValueError, kOp, detail::show(c), " at byte ", at, " is not among the ",
             characters_.size(),
             " characters of the vocabulary; leave it out, or train on a text that has it");
    ids.push_back(id);
  }
  return ids;
}

std::string CharTokenizer::token_bytes(std::int64_t id) const {
  CT_CHECK(id >= 0 && id < vocab_size(), IndexError, kOp, "token ", id, " is out of range; ids lie in [0, ",
           vocab_size(), ")");
  std::string text;
  detail::append_utf8(text, characters_[static_cast<std::size_t>(id)]);
  return text;
}

void CharTokenizer::save(const std::string& path) const {
  // For `tokenizers`: words of one character each, put together again without spaces between them. The
  // unknown token is not in the vocabulary: as here, a character that is not in it is an error.
  io::JsonTree tree(R"({
    "version": "1.0",
    "truncation": null,
    "padding": null,
    "added_tokens": [],
    "normalizer": null,
    "pre_tokenizer": {"type": "Split", "pattern": {}, "behavior": "Isolated", "invert": false},
    "post_processor": null,
    "decoder": {"type": "Fuse"},
    "model": {"type": "WordLevel", "vocab": {}, "unk_token": "<unk>"}})");
  nlohmann::json& file = tree.value();
  file["pre_tokenizer"]["pattern"]["Regex"] = kAnyCharacter;
  nlohmann::json& vocab = file["model"]["vocab"];
  for (std::int64_t id = 0; id < vocab_size(); ++id) vocab[token_bytes(id)] = id;
  io::write_file(path, file.dump(1) + "\n");
}

CharTokenizer CharTokenizer::load(const std::string& path) {
  return from_json(detail::read_text_file(kOp, path), path);
}

CharTokenizer CharTokenizer::from_json(std::string_view json, const std::string& name) {
  const io::JsonTree tree(json);
  const nlohmann::json& file = *tree;
  const auto check = [&](bool ok, const auto&... what) {
    CT_CHECK(ok, IoError, kOp, '\'', name, "': ", what...);
  };
  check(is_character_model(file) && file["model"].contains("vocab"),
        "is no character vocabulary; a file that this class has saved is wanted");
  const nlohmann::json& vocab = file["model"]["vocab"];
  check(vocab.is_array() || vocab.is_object(), "the vocabulary is of type ", vocab.type_name(),
        "; characters with their ids are wanted");
  std::vector<char32_t> characters;
  // An object's members are sorted by their bytes here, which is the order of code points.
  for (const auto& [key, value] : vocab.items()) {
    if (vocab.is_object())
      check(value == characters.size(), "'", key, "' has the id ", value.dump(),
            "; ids follow the order of characters: ", characters.size(), " is wanted");
    else
      check(value.is_string(), "the vocabulary holds a value of type ", value.type_name(),
            "; characters are wanted");
    const std::vector<char32_t> codes =
        detail::decode_utf8(vocab.is_object() ? key : value.get<std::string>());
    check(codes.size() == 1 && codes[0] < detail::kBadByte, "entry ", characters.size(),
          " of the vocabulary is no single character");
    check(characters.empty() || characters.back() < codes[0], "entry ", characters.size(),
          " of the vocabulary is out of order; characters are sorted and differ");
    characters.push_back(codes[0]);
  }
  return CharTokenizer(std::move(characters));
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path) {
  namespace fs = std::filesystem;
  std::string file = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored) && fs::exists(path + "/tokenizer.json", ignored))
    file = path + "/tokenizer.json";
  if (fs::is_regular_file(file, ignored)) {
    const std::string text = detail::read_text_file("load_tokenizer", file);
    if (is_character_model(*io::JsonTree(text)))
      return std::make_shared<CharTokenizer>(CharTokenizer::from_json(text, file));
  }
  return std::make_shared<BpeTokenizer>(BpeTokenizer::load(file));
}

}  // namespace ct::text
