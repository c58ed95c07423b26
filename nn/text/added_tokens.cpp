#include <cotangent/nn/text/bpe_internal.h>
#include <cotangent/nn/text/unicode_internal.h>

// Texts that are tokens by themselves, found in time that does not depend on how many there are.

namespace ct::text::detail {

void AddedTokens::add(AddedToken token) {
  begins_[static_cast<unsigned char>(token.content[0])] = true;
  std::uint32_t node = 0;
  for (const char c : token.content) {
    const auto next = static_cast<std::uint32_t>(token_of_.size());
    const auto [edge, added] = edges_.emplace(std::uint64_t{node} << 8 | static_cast<unsigned char>(c), next);
    if (added) token_of_.push_back(-1);
    node = edge->second;
  }
  if (token_of_[node] < 0) token_of_[node] = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(std::move(token));
}

const AddedToken* AddedTokens::longest_at(std::string_view text, std::size_t at) const {
  const AddedToken* longest = nullptr;
  if (!begins_[static_cast<unsigned char>(text[at])]) return longest;
  for (std::uint32_t node = 0; at < text.size(); ++at) {
    const auto edge = edges_.find(std::uint64_t{node} << 8 | static_cast<unsigned char>(text[at]));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (token_of_[node] >= 0) longest = &tokens_[static_cast<std::size_t>(token_of_[node])];
  }
  return longest;
}

namespace {

bool is_word_character(char32_t c) {
  const Category k = category_of(c);
  return k <= Category::Nd || k == Category::Pc;
}
// The character that ends before `at`.
char32_t character_before(std::string_view text, std::size_t at) {
  std::size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  std::size_t length = 0;
  const char32_t c = decode_utf8(text, begin, length);
  return begin + length == at ? c : kBadByte;
}

}  // namespace

AddedTokens::Found AddedTokens::find(std::string_view text, std::size_t from) const {
  for (std::size_t at = empty() ? text.size() : from; at < text.size(); ++at) {
    const AddedToken* token = longest_at(text, at);
    if (!token) continue;
    Found found{token, at, at + token->content.size()};
    std::size_t length = 0;
    if (token->single_word &&
        ((at > 0 && is_word_character(character_before(text, at))) ||
         (found.end < text.size() && is_word_character(decode_utf8(text, found.end, length))))) {
      at = found.end - 1;
      continue;
    }
    if (token->strip_left)
      while (found.begin > from && is_space(character_before(text, found.begin))) do
          --found.begin;
        while (found.begin > from && (static_cast<unsigned char>(text[found.begin]) & 0xC0) == 0x80);
    if (token->strip_right)
      while (found.end < text.size() && is_space(decode_utf8(text, found.end, length))) found.end += length;
    return found;
  }
  return {nullptr, text.size(), text.size()};
}

}  // namespace ct::text::detail
