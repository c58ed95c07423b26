#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <cotangent/nn/text/pattern_internal.h>

namespace ct::text::detail {

inline constexpr char kBpe[] = "BpeTokenizer";

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class T>
using ByText = std::unordered_map<std::string, T, StringHash, std::equal_to<>>;
/// Hash of two numbers in one. Numbers that follow each other are spread over the table.
struct PairHash {
  std::size_t operator()(std::uint64_t pair) const {
    pair = (pair ^ pair >> 33) * 0x9E3779B97F4A7C15u;
    return pair ^ pair >> 29;
  }
};
/// Whether so many keys share the place of this one that finding them takes long. That does not happen by
/// chance: it takes a file that was made for it.
template <class Table>
bool crowded(const Table& table, const typename Table::key_type& key) {
  return table.bucket_size(table.bucket(key)) > 64;
}

/// Longest text in a file that is searched for, or replaces another one; and longest token.
inline constexpr std::size_t kMaxText = 1024, kMaxToken = 8192;
/// Most normalizers, pre-tokenizers, and ids around a text.
inline constexpr std::size_t kMaxParts = 128, kMaxTemplate = 1024;
/// Limit of what normalizers, and after them pre-tokenizers, make of a text: kGrowth times as many bytes, and a few.
inline constexpr std::size_t kGrowth = 16;
inline std::size_t room_for(std::size_t bytes) { return 1024 + kGrowth * bytes; }

/// A token that is looked for in the text itself.
struct AddedToken {
  std::string content;
  std::int64_t id = 0;
  bool special = false, single_word = false, strip_left = false, strip_right = false, normalized = false;
};

/// Finds the leftmost of several texts, of those that begin there the longest (of equal ones the first).
class AddedTokens {
 public:
  void add(AddedToken token);
  bool empty() const { return tokens_.empty(); }
  struct Found {
    const AddedToken* token = nullptr;  // null: the end of the text
    std::size_t begin = 0, end = 0;
  };
  /// The next one from `at` on.
  Found find(std::string_view text, std::size_t at) const;

 private:
  const AddedToken* longest_at(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;
  // A tree of bytes. A node is known by its number, 0 is the root; the edges go from node << 8 | byte.
  std::unordered_map<std::uint64_t, std::uint32_t, PairHash> edges_;
  std::vector<std::int32_t> token_of_ = {-1};  // of each node: a place in tokens_, or -1
  std::array<bool, 256> begins_{};             // whether an edge with this byte leaves the root
};

/// Puts `to` wherever `text` has `from`. False, with the text as it was, if it would be longer than `room`.
bool replace_all(std::string& text, std::string_view from, std::string_view to,
                 std::size_t room = std::string::npos);

/// Prepend, or the replacement of a text.
struct Normalizer {
  bool prepend = false;
  std::string from, to;
};

/// One step of cutting text into words.
struct Cut {
  enum class Kind { split, byte_level, metaspace, digits } kind = Kind::split;
  std::shared_ptr<const Pattern> pattern;  // split, byte_level (null: no cut)
  bool keep_matches = true, keep_rest = true;
  bool add_prefix = false;   // byte_level: a space, unless there is one
  bool individually = true;  // digits
  std::string replacement;   // metaspace: instead of a space
  enum class Prepend { always, first, never } prepend = Prepend::never;
  bool split_at_replacement = true;
};

struct Merge {
  std::uint32_t rank;
  std::int32_t id;
};

struct BpeModel {
  std::string json;  // what save() writes

  bool byte_level = false;
  std::vector<std::string> bytes;  // of each token
  std::vector<bool> special;
  ByText<std::int64_t> ids;    // by the text in the file
  ByText<std::int32_t> words;  // by the bytes they stand for, for ignore_merges
  std::unordered_map<std::uint64_t, Merge, PairHash> merges;  // by the pair of ids
  std::array<std::int32_t, 256> byte_ids{};                   // or -1
  std::unordered_map<char32_t, std::int32_t> char_ids;
  std::int32_t unknown = -1;
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;

  AddedTokens added, added_normalized;
  std::vector<Normalizer> normalizers;
  std::vector<Cut> cuts;
  std::vector<std::int64_t> before, after;  // of the post-processor
  std::string after_problem;                // why it can't be used
  bool drop_first_space = false;            // by decode()

  /// The text as the normalizers make it; nothing if that is longer than `room`, at any of them.
  std::optional<std::string> normalize(std::string_view text, std::size_t room) const;
  static std::uint64_t pair(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
};

/// GPT-2's printable stand-in for a byte, and back (-1: not one of them).
char32_t stand_in_of(unsigned char byte);
int byte_of_stand_in(char32_t code);

std::unique_ptr<const BpeModel> read_bpe(std::string_view json, const std::string& name);
std::unique_ptr<const BpeModel> read_bpe(std::string_view vocab, std::string_view merges,
                                         const std::string& name);

/// The rule by which GPT-2 cuts text into words.
inline constexpr char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace ct::text::detail
