#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
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

/// A token that is looked for in the text itself.
struct AddedToken {
  std::string content;
  std::int64_t id = 0;
  bool special = false, single_word = false, strip_left = false, strip_right = false, normalized = false;
};

/// Finds the leftmost of several texts, of those that begin there the longest.
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
  std::vector<AddedToken> tokens_;
  std::array<std::vector<std::size_t>, 256> by_first_;
};

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
  ByText<std::int32_t> words;  // by the bytes they stand for; what ignore_merges looks at
  std::unordered_map<std::uint64_t, Merge> merges;  // by the pair of ids
  std::array<std::int32_t, 256> byte_ids{};         // or -1
  std::unordered_map<char32_t, std::int32_t> char_ids;
  std::int32_t unknown = -1;
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;

  AddedTokens added, added_normalized;
  std::vector<Normalizer> normalizers;
  std::vector<Cut> cuts;
  std::vector<std::int64_t> before, after;  // of the post-processor
  std::string after_problem;                // why it can't be used
  bool drop_first_space = false;            // by decode()

  std::string normalize(std::string_view text) const;
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
