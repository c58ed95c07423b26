#include <algorithm>
#include <filesystem>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/printable.h>
#include <cotangent/nn/io/atomic_file.h>
#include <cotangent/nn/io/json.h>
#include <cotangent/nn/io/source_internal.h>
#include <cotangent/nn/text/bpe.h>
#include <cotangent/nn/text/tokenizer.h>
#include <cotangent/nn/text/unicode_internal.h>

namespace ct::text {
namespace {

using io::Json;

constexpr char kOp[] = "CharTokenizer";
constexpr char kAnyCharacter[] = R"([\s\S])";

Json parse(const char* op, std::string_view text, const std::string& name) {
  return io::parse_json({op, name, "the text is", "it is truncated, or no tokenizer.json"}, text);
}

bool has_text(const Json* object, const char* key, std::string_view value) {
  const Json* found = object ? object->find(key) : nullptr;
  return found && found->text() && *found->text() == value;
}

// Format that save() writes, or wrote in older versions: {"type": "Characters", "vocab": ["a", ...]}.
bool is_character_model(const Json& file) {
  const Json* model = file.find("model");
  const Json* cut = file.find("pre_tokenizer");
  return has_text(model, "type", "Characters") ||
         (has_text(model, "type", "WordLevel") && has_text(cut, "type", "Split") &&
          has_text(cut->find("pattern"), "Regex", kAnyCharacter));
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

const std::vector<char32_t>& CharTokenizer::characters() const {
  CT_CHECK(!latin_.empty(), Error, kOp,
           "the tokenizer is empty because it was moved from; use the one it was moved to");
  return characters_;
}

std::vector<std::int64_t> CharTokenizer::encode(std::string_view text) const {
  const std::vector<char32_t>& known = characters();
  std::vector<std::int64_t> ids;
  ids.reserve(text.size());
  for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
    const char32_t c = detail::decode_utf8(text, at, length);
    std::int64_t id = -1;
    if (c < 256) {
      id = latin_[c];
    } else if (const auto found = std::lower_bound(known.begin(), known.end(), c);
               found != known.end() && *found == c) {
      id = found - known.begin();
    }
    CT_CHECK(id >= 0, ValueError, kOp, detail::show(c), " at byte ", at, " is not among the ", known.size(),
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
  std::vector<Json::Member> vocab;
  for (std::int64_t id = 0; id < vocab_size(); ++id) vocab.emplace_back(token_bytes(id), id);
  // The form that `tokenizers` reads: words of one character each, put together again without spaces
  // between them. The unknown token is not in the vocabulary: as here, a character that is not in it
  // is an error.
  const Json file =
      Json::object({{"version", "1.0"},
                    {"truncation", {}},
                    {"padding", {}},
                    {"added_tokens", Json::List()},
                    {"normalizer", {}},
                    {"pre_tokenizer", Json::object({{"type", "Split"},
                                                    {"pattern", Json::object({{"Regex", kAnyCharacter}})},
                                                    {"behavior", "Isolated"},
                                                    {"invert", false}})},
                    {"post_processor", {}},
                    {"decoder", Json::object({{"type", "Fuse"}})},
                    {"model", Json::object({{"type", "WordLevel"},
                                            {"vocab", Json::object(std::move(vocab))},
                                            {"unk_token", "<unk>"}})}});
  io::write_file(path, file.dump(kOp, 1) + "\n");
}

CharTokenizer CharTokenizer::load(const std::string& path) {
  return from_json(io::read_text_file(kOp, path), path);
}

CharTokenizer CharTokenizer::from_json(std::string_view json, const std::string& name) {
  const Json file = parse(kOp, json, name);
  const auto check = [&](bool ok, const auto&... what) {
    CT_CHECK(ok, IoError, kOp, printable_path(name), ": ", what...);
  };
  const Json* vocab = is_character_model(file) ? file.find("model")->find("vocab") : nullptr;
  check(vocab, "is no character vocabulary; a file that this class has saved is wanted");
  check(vocab->list() || vocab->is_object(), "the vocabulary is ", vocab->kind(),
        "; characters with their ids are wanted");
  std::vector<char32_t> characters;
  const auto add = [&](const std::string& text) {
    const std::vector<char32_t> codes = detail::decode_utf8(text);
    check(codes.size() == 1 && codes[0] < detail::kBadByte, "entry ", characters.size(),
          " of the vocabulary is no single character");
    check(characters.empty() || characters.back() < codes[0], "entry ", characters.size(),
          " of the vocabulary is out of order; characters are sorted and differ");
    characters.push_back(codes[0]);
  };
  if (const Json::List* list = vocab->list()) {
    for (const Json& value : *list) {
      check(value.text(), "the vocabulary holds ", value.kind(), "; characters are wanted");
      add(*value.text());
    }
  } else {
    // An object's members are sorted by their bytes here, which is the order of code points.
    for (const auto& [key, value] : *vocab->members()) {
      check(value.unsigned_integer() == characters.size(), printable(key), " has the id ", value,
            "; ids follow the order of characters: ", characters.size(), " is wanted");
      add(key);
    }
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
    const std::string text = io::read_text_file("load_tokenizer", file);
    if (is_character_model(parse("load_tokenizer", text, file)))
      return std::make_shared<CharTokenizer>(CharTokenizer::from_json(text, file));
  }
  return std::make_shared<BpeTokenizer>(BpeTokenizer::load(file));
}

}  // namespace ct::text
