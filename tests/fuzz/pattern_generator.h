#pragma once

#include <cstddef>
#include <span>
#include <string>

// Well-formed inputs out of any bytes: each byte decides something, so what a fuzzer changes a little gives
// an input that is a little different.

namespace ct::fuzz {

/// Decisions read from bytes. Behind their end all are 0, which is everywhere what ends soonest.
class Choices {
 public:
  explicit Choices(std::span<const std::byte> bytes) : bytes_(bytes) {}
  /// In [0, limit), limit <= 256.
  std::size_t below(std::size_t limit) {
    if (bytes_.empty()) return 0;
    const auto byte = static_cast<std::size_t>(bytes_[0]);
    bytes_ = bytes_.subspan(1);
    return byte % limit;
  }
  bool one_in(std::size_t n) { return below(n) == n - 1; }
  bool more() const { return !bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

/// A pattern of nested groups, alternatives, counted repetitions (also of nothing), sets, looks ahead.
std::string make_pattern(Choices& choices);
/// UTF-8 of the characters that those patterns are about, in runs, of at most `longest` bytes or so.
std::string make_text(Choices& choices, std::size_t longest);
/// A tokenizer.json with chains of normalizers and pre-tokenizers, and added tokens that are normalized.
std::string make_tokenizer(Choices& choices);

}  // namespace ct::fuzz
