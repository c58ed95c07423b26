#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cotangent/nn/text/tokenizer.h>

namespace ct::text {

namespace detail {
struct BpeModel;
}

struct EncodeOptions {
  /// Adds what the file's post_processor puts around a text (Llama's begin-of-text token).
  bool add_special = false;
};

/// Byte-pair encoding (Sennrich et al., 2016), as Hugging Face's `tokenizers` computes it, for the files of
/// GPT-2, Llama and their relatives:
///   - byte level (GPT-2, Llama 3, tiktoken's): text is cut by GPT-2's rule or by the file's own `Split`
///     patterns, and any bytes have tokens;
///   - metaspace (Llama 2): spaces become U+2581; characters that have no token fall back to the tokens
///     <0x00> ... <0xFF>, or to the unknown token.
/// Added tokens are found in the text before anything else. A tokenizer that was moved from is empty; using
/// it throws Error. Not known, and refused when a file is read:
/// normalizers other than Prepend and Replace of a text, models other than BPE, dropout, prefixes and
/// suffixes of words.
class CT_API BpeTokenizer final : public Tokenizer {
 public:
  /// Reads a tokenizer.json, or vocab.json (with merges.txt beside it), or a folder with either. Throws
  /// IoError, naming the file and what in it is wrong or not known.
  static BpeTokenizer load(const std::string& path);
  static BpeTokenizer from_json(std::string_view json, const std::string& name = "JSON");
  /// GPT-2's files, and GPT-2's rule to cut text; "<|endoftext|>" is an added token if it is in the
  /// vocabulary.
  static BpeTokenizer from_vocab_and_merges(std::string_view vocab_json, std::string_view merges,
                                            const std::string& name = "vocab.json");
  ~BpeTokenizer() override;
  BpeTokenizer(BpeTokenizer&&) noexcept;

  std::int64_t vocab_size() const override;
  std::vector<std::int64_t> encode(std::string_view text) const override { return encode(text, {}); }
  /// Throws ValueError for a character without a token, if there is no unknown token either; and for a file
  /// whose normalizers or pre-tokenizers make the text more than 16 times as long, or whose patterns take more
  /// steps or memory than a text of this length is worth.
  std::vector<std::int64_t> encode(std::string_view text, EncodeOptions options) const;
  std::vector<std::int64_t> beginning() const override;
  std::string token_bytes(std::int64_t id) const override;
  /// Metaspace tokenizers: the space that encode() put before the text is removed again.
  std::string decode(std::span<const std::int64_t> ids) const override;
  void save(const std::string& path) const override;

  /// The id of a token as the file writes it ("<|endoftext|>", "Ġthe"), or -1.
  std::int64_t find_token(std::string_view text) const;
  /// Whether the id is one of the added tokens that are marked special.
  bool is_special(std::int64_t id) const;

 private:
  explicit BpeTokenizer(std::shared_ptr<const detail::BpeModel> model);
  const detail::BpeModel& model() const;
  std::shared_ptr<const detail::BpeModel> model_;
};

}  // namespace ct::text
