#include <algorithm>
#include <cstdio>

#include <cotangent/core/base/printable.h>
#include <cotangent/nn/text/unicode_internal.h>

namespace ct::text::detail {
namespace {

// The runs with their starts, and a direct table for the characters that most texts are made of.
struct Table {
  static constexpr char32_t kDirect = 0x800;
  std::vector<char32_t> starts;
  std::vector<Category> direct;

  Table() : direct(kDirect) {
    char32_t start = 0;
    for (std::size_t i = 0; i < k_category_run_count; ++i) {
      starts.push_back(start);
      const char32_t end = start + (k_category_runs[i] >> 5);
      for (char32_t c = start; c < end && c < kDirect; ++c) direct[c] = run(i);
      start = end;
    }
  }
  static Category run(std::size_t i) { return static_cast<Category>(k_category_runs[i] & 31); }
};

}  // namespace

Category category_of(char32_t code) {
  static const Table& table = *new Table;
  if (code < Table::kDirect) return table.direct[code];
  if (code > kLastCodePoint) return Category::Cn;
  const auto after = std::upper_bound(table.starts.begin(), table.starts.end(), code);
  return Table::run(static_cast<std::size_t>(after - table.starts.begin()) - 1);
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

char32_t decode_utf8(std::string_view text, std::size_t at, std::size_t& length) {
  const auto first = static_cast<unsigned char>(text[at]);
  length = 1;
  if (first < 0x80) return first;
  char32_t code = 0;
  const std::size_t found = ct::detail::utf8_at(text, at, code);
  if (found == 0) return kBadByte + first;
  length = found;
  return code;
}

std::vector<char32_t> decode_utf8(std::string_view text) {
  std::vector<char32_t> codes;
  codes.reserve(text.size());
  for (std::size_t at = 0, length = 0; at < text.size(); at += length)
    codes.push_back(decode_utf8(text, at, length));
  return codes;
}

void append_utf8(std::string& to, char32_t c) {
  const auto put = [&](char32_t byte) { to += static_cast<char>(byte); };
  if (c >= kBadByte) {
    put(c - kBadByte);
  } else if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

std::string show(char32_t c) {
  char number[32];
  if (c >= kBadByte) {
    std::snprintf(number, sizeof number, "the byte 0x%02X", static_cast<unsigned>(c - kBadByte));
    return number;
  }
  std::snprintf(number, sizeof number, "U+%04X", static_cast<unsigned>(c));
  const Category k = category_of(c);
  if (k == Category::Cc || k == Category::Cf || k == Category::Cn || k == Category::Zl || k == Category::Zp)
    return number;
  std::string text = "'";
  append_utf8(text, c);
  return text + "' (" + number + ")";
}

}  // namespace ct::text::detail
