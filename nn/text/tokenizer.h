#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cotangent/core/base/export.h>

namespace ct::text {

/// Turns text into token ids and back. Texts are UTF-8. Safe for use from several threads.
class CT_API Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ids are in [0, vocab_size()); not all of them need be used.
  virtual std::int64_t vocab_size() const = 0;
  /// Throws ValueError, naming the character and its byte, for text that has no tokens.
  virtual std::vector<std::int64_t> encode(std::string_view text) const = 0;
  /// The tokens that the file puts in front of a text (Llama's begin-of-text token); encode() leaves them
  /// out.
  virtual std::vector<std::int64_t> beginning() const { return {}; }
  /// The bytes that this token stands for: text grows by them while tokens arrive, and may end within a
  /// character until the next ones come. Empty for an id that is not used. Throws IndexError out of range.
  virtual std::string token_bytes(std::int64_t id) const = 0;
  /// The text of all these tokens.
  virtual std::string decode(std::span<const std::int64_t> ids) const;
  /// Writes a tokenizer.json that load_tokenizer() reads, as a whole or not at all. Throws IoError.
  virtual void save(const std::string& path) const = 0;
};

/// Every character of a text is a token; ids follow the order of code points. A tokenizer that was moved from
/// is empty; using it throws Error.
class CT_API CharTokenizer final : public Tokenizer {
 public:
  /// The vocabulary is that of `text`. Throws ValueError, naming the byte, for text that is not UTF-8.
  static CharTokenizer from_text(std::string_view text);
  /// Reads a file of save(). Throws IoError.
  static CharTokenizer load(const std::string& path);
  static CharTokenizer from_json(std::string_view json, const std::string& name = "JSON");

  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(characters().size()); }
  std::vector<std::int64_t> encode(std::string_view text) const override;
  std::string token_bytes(std::int64_t id) const override;
  void save(const std::string& path) const override;

 private:
  explicit CharTokenizer(std::vector<char32_t> characters);
  const std::vector<char32_t>& characters() const;
  std::vector<char32_t> characters_;  // sorted
  std::vector<std::int32_t> latin_;   // ids of the characters below 256, or -1
};

/// Reads the tokenizer of a file or folder: a tokenizer.json of this library or of Hugging Face's
/// `tokenizers`, or vocab.json and merges.txt of GPT-2. Throws IoError with what was looked for.
CT_API std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path);

}  // namespace ct::text
