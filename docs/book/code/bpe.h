#pragma once

#include <cstddef>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

// Byte pairs in the plainest way: which pairs become tokens, and a text as tokens.

namespace book {

using Tokens = std::vector<int>;
using Pair = std::pair<int, int>;

/// Bytes of a text, cut in front of each space: no token reaches from one word into the next.
inline std::vector<Tokens> words_of(std::string_view text) {
  std::vector<Tokens> words;
  for (const char c : text) {
    if (words.empty() || c == ' ') words.emplace_back();
    words.back().push_back(static_cast<unsigned char>(c));
  }
  return words;
}

/// Puts `id` in the place of each such pair, from the left.
inline void merge(Tokens& word, const Pair& pair, int id) {
  std::size_t to = 0;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool here = i + 1 < word.size() && word[i] == pair.first && word[i + 1] == pair.second;
    word[to++] = here ? id : word[i];
    if (here) ++i;
  }
  word.resize(to);
}

/// The `count` pairs that become tokens 256, 257, ...: each time the one that occurs most often (of equals the first).
inline std::vector<Pair> learn(std::string_view text, int count) {
  std::vector<Tokens> words = words_of(text);
  std::vector<Pair> merges;
  for (int id = 256; id < 256 + count; ++id) {
    std::map<Pair, int> seen;
    for (const Tokens& word : words)
      for (std::size_t i = 0; i + 1 < word.size(); ++i) ++seen[{word[i], word[i + 1]}];
    std::pair<Pair, int> best{{}, 0};
    for (const auto& found : seen)
      if (found.second > best.second) best = found;
    if (best.second == 0) break;  // each word is a token
    merges.push_back(best.first);
    for (Tokens& word : words) merge(word, best.first, id);
  }
  return merges;
}

/// Tokens of a text: in each word the pairs are merged in the order in which they were learned.
inline Tokens encode(std::string_view text, const std::vector<Pair>& merges) {
  Tokens all;
  for (Tokens word : words_of(text)) {
    for (std::size_t m = 0; m < merges.size(); ++m) merge(word, merges[m], 256 + static_cast<int>(m));
    all.insert(all.end(), word.begin(), word.end());
  }
  return all;
}

}  // namespace book
