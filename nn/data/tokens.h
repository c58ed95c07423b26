#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

// Text as a long row of token numbers, and the windows of it that a language model is trained on.

namespace ct::data {

/// Layouts of token files; all numbers little-endian.
enum class TokenFormat {
  raw,     ///< 16-bit tokens and nothing else, as nanoGPT writes them
  llmc,    ///< llm.c's: a header of 256 32-bit words {20240520, 1, count}, then 16-bit tokens
  llmc32,  ///< llm.c's for large vocabularies: {20240801, 7, count}, then 32-bit tokens
};

/// A row of tokens in a file or in memory. A handle: copies and parts share what is behind them. Files are
/// read where tokens are asked for and never as a whole; several threads may read at once.
class CT_API Tokens {
 public:
  /// Opens a file; its first word tells the format. Throws IoError, with the path, for a file that can't be
  /// read, whose size does not fit its header or is odd, or that is another of llm.c's files.
  static Tokens open(const std::string& path);
  /// Tokens in memory. Throws ValueError for a negative one.
  static Tokens from_vector(const std::vector<std::int64_t>& tokens, std::string name = "tokens");

  std::int64_t size() const { return end_ - begin_; }
  /// The path, for messages.
  const std::string& name() const;
  /// Position of its first token in the whole file or text.
  std::int64_t begin() const { return begin_; }
  /// Tokens [start, start + to.size()). Throws IndexError out of range, IoError if the file has shrunk.
  void read(std::int64_t start, std::span<std::int64_t> to) const;
  /// The tokens [start, start + count) as a row of their own. Throws IndexError out of range.
  Tokens part(std::int64_t start, std::int64_t count) const;
  /// The first and the last part: `last` of all tokens (rounded down) are in the second. Throws ValueError
  /// unless 0 <= last <= 1.
  std::pair<Tokens, Tokens> split(double last) const;

  /// The same tokens read from anywhere, as open() and from_vector() know them.
  struct Source;
  explicit Tokens(std::shared_ptr<const Source> source);

 private:
  const Source& source() const;
  Tokens(std::shared_ptr<const Source> source, std::int64_t begin, std::int64_t end);

  std::shared_ptr<const Source> source_;
  std::int64_t begin_ = 0, end_ = 0;
};

/// Writes a token file as a whole or not at all. Throws ValueError for a token that the format can't hold,
/// IoError.
CT_API void save_tokens(const std::string& path, std::span<const std::int64_t> tokens,
                        TokenFormat format = TokenFormat::raw);

struct TokenDatasetOptions {
  /// Tokens of a window.
  std::int64_t block = 256;
  /// Window i of a random order starts at a place that is a function of (seed, i) alone, drawn uniformly with
  /// replacement. So any step of a run can be repeated without the steps before it, and a run may have any
  /// length. Otherwise windows lie side by side, and a rest shorter than a window is left out.
  bool random = true;
  std::uint64_t seed = 0;
  /// Every token must be smaller, or IndexError is thrown when it turns up; 0: not checked.
  std::int64_t vocab_size = 0;
};

/// Windows of a row of tokens as examples for a DataLoader: batches are {x, y}, i64[B, block] both, where y
/// is x shifted by one: y[b, t] is the token that follows x[b, 0..t].
///
///     auto [train, val] = ct::data::Tokens::open("train.bin").split(0.1);
///     ct::data::DataLoader batches(ct::data::TokenDataset(train, {.block = 256, .seed = 42}),
///                                  {.batch_size = 64, .workers = 1, .prefetch = device});
///
/// Do not shuffle random windows again.
class CT_API TokenDataset {
 public:
  /// Throws ValueError if there is not one window of block + 1 tokens.
  TokenDataset(Tokens tokens, TokenDatasetOptions options);

  /// The number of windows; 2^62 of them in random order.
  std::int64_t size() const;
  /// Start of window i.
  std::int64_t start_of(std::int64_t i) const;
  std::array<Tensor, 2> get_batch(std::span<const std::int64_t> windows) const;
  const Tokens& tokens() const { return tokens_; }
  const TokenDatasetOptions& options() const { return options_; }

 private:
  Tokens tokens_;
  TokenDatasetOptions options_;
};

}  // namespace ct::data
